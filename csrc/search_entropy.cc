// The divergences of all numbers of bins to keep, in O(levels) additions each.
//
// Group g of i bins begins at bin ceil(g·i / L). With S the sum of a group, c its number of filled bins, P_g
// the sum of the group and what was put into it, N = Σ counts and C(i) = Σ_{k<i} counts
//
//   KL(i) = (Σ_{k<i} P ln P − Σ_g P_g ln(S_g / c_g)) / N − ln N + ln C(i)
//
// A group is d = floor(i / L) or d + 1 bins long, and P_g = S_g in all groups but the last. So S ln(S / c) is
// computed once for each start and both lengths, and serves all candidates i = d·L … d·L + L − 1.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "natural_log.h"
#include "search.h"

namespace calib8 {
namespace {

double log_of(int64_t count) { return natural_log(static_cast<double>(count)); }

class Divergences {
 public:
  Divergences(const int64_t* counts, int64_t bins, int64_t levels)
      : counts_(counts), bins_(bins), levels_(levels), sums_(bins + 1), filled_(bins + 1), own_(bins + 1) {
    for (int64_t k = 0; k < bins; ++k) {
      sums_[k + 1] = sums_[k] + counts[k];
      filled_[k + 1] = filled_[k] + (counts[k] > 0);
      own_[k + 1] = own_[k] + (counts[k] > 0 ? static_cast<double>(counts[k]) * log_of(counts[k]) : 0.0);
    }
    log_of_size_.resize(bins / levels + 2);
    for (size_t size = 1; size < log_of_size_.size(); ++size) {
      log_of_size_[size] = log_of(static_cast<int64_t>(size));
    }
  }

  void all(double* divergences) {
    std::vector<double> shorter, longer;
    for (int64_t size = 1; size * levels_ <= bins_; ++size) {
      const int64_t last = std::min(size * levels_ + levels_ - 1, bins_);
      shorter.swap(longer);
      add_windows(size, last, shorter);
      longer.clear();
      add_windows(size + 1, last, longer);
      for (int64_t kept = size * levels_; kept <= last; ++kept) {
        divergences[kept - levels_] = divergence(kept, size, shorter.data(), longer.data());
      }
    }
  }

 private:
  // Appends S ln(S / c) of the windows of `size` bins within the first `kept` ones.
  void add_windows(int64_t size, int64_t kept, std::vector<double>& terms) const {
    for (int64_t start = static_cast<int64_t>(terms.size()); start + size <= kept; ++start) {
      const int64_t sum = sums_[start + size] - sums_[start];
      const double log = natural_log(static_cast<double>(std::max<int64_t>(sum, 1)));
      terms.push_back(static_cast<double>(sum) *
                      (log - log_of_size_[filled_[start + size] - filled_[start]]));
    }
  }

  double divergence(int64_t kept, int64_t size, const double* shorter, const double* longer) const {
    const int64_t outside = sums_[bins_] - sums_[kept];
    const int64_t last_start = ((levels_ - 1) * kept + levels_ - 1) / levels_;
    const int64_t last_sum = sums_[kept] - sums_[last_start];
    if (outside > 0 && last_sum == 0) return std::numeric_limits<double>::infinity();
    const double cross =
        all_but_last(kept % levels_, size, shorter, longer) + last(kept, last_start, outside);
    const int64_t top = counts_[kept - 1] + outside;
    const double own = own_[kept - 1] + (top > 0 ? static_cast<double>(top) * log_of(top) : 0.0);
    const int64_t total = sums_[bins_];
    const double inside = sums_[kept] > 0 ? log_of(sums_[kept]) : 0.0;
    return (own - cross) / static_cast<double>(total) - log_of(total) + inside;
  }

  // Starts of groups by an integer line: after g groups, ceil(g·rest / levels) of them were the longer ones.
  double all_but_last(int64_t rest, int64_t size, const double* shorter, const double* longer) const {
    const double* const windows[2] = {shorter, longer};
    double sum = 0.0;
    int64_t start = 0, line = levels_ - 1;
    for (int64_t group = 0; group + 1 < levels_; ++group) {
      line += rest;
      const int64_t is_longer = line >= levels_;
      line -= is_longer ? levels_ : 0;
      sum += windows[is_longer][start];
      start += size + is_longer;
    }
    return sum;
  }

  // P ln(S / c) of the last group. Its last bin counts as filled as soon as something was put into it.
  double last(int64_t kept, int64_t start, int64_t outside) const {
    const int64_t sum = sums_[kept] - sums_[start];
    if (sum == 0) return 0.0;
    const int64_t size = filled_[kept] - filled_[start] + (outside > 0 && counts_[kept - 1] == 0);
    return static_cast<double>(sum + outside) * (log_of(sum) - log_of_size_[size]);
  }

  const int64_t* counts_;
  int64_t bins_, levels_;
  std::vector<int64_t> sums_, filled_;  // of the bins below
  std::vector<double> own_;             // Σ H ln H of the bins below
  std::vector<double> log_of_size_;
};

}  // namespace

void divergences(const int64_t* counts, int64_t bins, int64_t levels, double* divergences) {
  Divergences(counts, bins, levels).all(divergences);
}

}  // namespace calib8
