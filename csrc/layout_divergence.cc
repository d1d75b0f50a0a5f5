// ncnn and Tengine: groups of i / L bins each, a bin on the border of two groups shared by both.
#include "layout_divergence.h"

#include "natural_log.h"

namespace calib8 {
namespace {

constexpr double kEpsilon = 1e-4;  // ncnn adds it to every bin of both distributions

// The border before group g: whole bins below it and the share of the next bin that it cuts off.
struct Border {
  int64_t bin;
  double share;
};

Border border(int64_t group, int64_t kept, int64_t levels) {
  const int64_t position = group * kept;
  return {position / levels, static_cast<double>(position % levels) / static_cast<double>(levels)};
}

template <class Sum>
double up_to(const std::vector<Sum>& sums, Border at) {
  const double below = static_cast<double>(sums[at.bin]);
  if (at.share == 0.0) return below;
  return below + at.share * static_cast<double>(sums[at.bin + 1] - sums[at.bin]);
}

double times_log(double x) { return x > 0.0 ? x * natural_log(x) : 0.0; }

struct Prefix {
  std::vector<int64_t> counts, filled;
  std::vector<double> information;  // Σ p ln p of the reference distribution before clipping
  double total;

  Prefix(const int64_t* histogram, int64_t n, double epsilon)
      : counts(n + 1), filled(n + 1), information(n + 1), total(0.0) {
    for (int64_t k = 0; k < n; ++k) counts[k + 1] = counts[k] + histogram[k];
    total = static_cast<double>(counts[n]);
    for (int64_t k = 0; k < n; ++k) {
      filled[k + 1] = filled[k] + (histogram[k] != 0);
      information[k + 1] = information[k] + times_log(static_cast<double>(histogram[k]) / total + epsilon);
    }
  }

  double share(int64_t from, int64_t to) const {
    return static_cast<double>(counts[to] - counts[from]) / total;
  }
};

double ncnn_candidate(const Prefix& sums, int64_t kept, int64_t levels) {
  const double width = static_cast<double>(kept) / static_cast<double>(levels);
  const double outliers = sums.share(kept, static_cast<int64_t>(sums.counts.size()) - 1);
  const double last = sums.share(kept - 1, kept) + kEpsilon + outliers;
  double cross = 0.0, previous = 0.0;
  Border from = border(0, kept, levels);
  for (int64_t group = 0; group < levels; ++group) {
    const Border to = border(group + 1, kept, levels);
    const double mean = (up_to(sums.counts, to) - up_to(sums.counts, from)) / (sums.total * width);
    const int64_t first = from.bin + (from.share > 0.0);
    if (from.share > 0.0) {
      const double cut = from.share * previous + (1.0 - from.share) * mean + kEpsilon;
      cross += (sums.share(from.bin, first) + kEpsilon) * natural_log(cut);
    }
    double weight = sums.share(first, to.bin) + kEpsilon * static_cast<double>(to.bin - first);
    if (group == levels - 1) weight += outliers;
    cross += weight * natural_log(mean + kEpsilon);
    previous = mean;
    from = to;
  }
  return sums.information[kept - 1] + times_log(last) - cross;
}

double tengine_candidate(const Prefix& sums, int64_t kept, int64_t levels) {
  const double outliers = sums.share(kept, static_cast<int64_t>(sums.counts.size()) - 1);
  double cross = 0.0, previous = 0.0;
  Border from = border(0, kept, levels);
  for (int64_t group = 0; group < levels; ++group) {
    const Border to = border(group + 1, kept, levels);
    const double filled = up_to(sums.filled, to) - up_to(sums.filled, from);
    const double sum = (up_to(sums.counts, to) - up_to(sums.counts, from)) / sums.total;
    const double value = filled > 0.0 ? sum / filled : 0.0;
    const int64_t first = from.bin + (from.share > 0.0);
    if (from.share > 0.0 && sums.counts[first] > sums.counts[from.bin]) {
      const double cut = from.share * previous + (1.0 - from.share) * value;
      cross += sums.share(from.bin, first) * natural_log(cut);
    }
    const int64_t end = group == levels - 1 ? kept - 1 : to.bin;  // the last bin is apart
    if (sums.counts[end] > sums.counts[first]) cross += sums.share(first, end) * natural_log(value);
    previous = value;
    from = to;
  }
  const double own = sums.share(kept - 1, kept), last = own + outliers;
  const double missing = own == 0.0 && last > 0.0 ? 1.0 : 0.0;
  if (own > 0.0) cross += last * natural_log(previous);
  return sums.information[kept - 1] - cross + (own > 0.0 ? times_log(last) : missing);
}

template <class Candidate>
std::vector<double> divergences(const Prefix& sums, int64_t n, int64_t levels, Candidate candidate) {
  std::vector<double> values;
  for (int64_t kept = levels; kept < n; ++kept) values.push_back(candidate(sums, kept, levels));
  return values;
}

}  // namespace

std::vector<double> divergences_ncnn(const int64_t* counts, int64_t n, int64_t levels) {
  return divergences(Prefix(counts, n, kEpsilon), n, levels, ncnn_candidate);
}

std::vector<double> divergences_tengine(const int64_t* counts, int64_t n, int64_t levels) {
  return divergences(Prefix(counts, n, 0.0), n, levels, tengine_candidate);
}

}  // namespace calib8
