// ncnn and Tengine: groups of i / L bins each, a bin on the border of two groups shared by both. Tengine's
// curve is rounded to float32 after every sum, in the order of its tool: where it is flat, rounding chooses.
#include "layout_divergence.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

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

// A share of the bin below and of the bin above a group, which both belong to their neighbours too.
struct Group {
  int64_t before, first, end;  // whole bins from `first` up to `end`; `before` is the cut one below
  float below, above;          // shares of bins `before` and `end` that belong to the group

  Group(Border from, Border to)
      : before(from.bin),
        first(from.bin + (from.share > 0.0)),
        end(to.bin),
        below(from.share > 0.0 ? 1.0F - static_cast<float>(from.share) : 0.0F),
        above(static_cast<float>(to.share)) {}

  // Adds what `value` says of each bin in the order of Tengine's tool. Every sum is rounded to float32; a
  // share of a bin is multiplied and added in one step, as its build for x86 does.
  template <class Value>
  float sum(Value value) const {
    float result = 0.0F;
    if (below > 0.0F) result = std::fma(below, value(before), result);
    if (above > 0.0F) result = std::fma(above, value(end), result);
    for (int64_t k = first; k < end; ++k) result += value(k);
    return result;
  }
};

// The distribution of `kept` bins that is left of `shares` in `levels` groups: into `spread`.
void spread_groups(const std::vector<float>& shares, int64_t kept, int64_t levels,
                   std::vector<float>& spread) {
  std::fill(spread.begin(), spread.begin() + kept, 0.0F);
  for (int64_t g = 0; g < levels; ++g) {
    const Group group(border(g, kept, levels), border(g + 1, kept, levels));
    const float sum = group.sum([&](int64_t k) { return shares[k]; });
    const float filled = group.sum([&](int64_t k) { return shares[k] != 0.0F ? 1.0F : 0.0F; });
    if (filled == 0.0F) continue;
    const float value = sum / filled;
    for (const auto& [bin, part] :
         {std::pair(group.before, group.below), std::pair(group.end, group.above)}) {
      if (part > 0.0F && shares[bin] != 0.0F) spread[bin] = std::fma(value, part, spread[bin]);
    }
    for (int64_t k = group.first; k < group.end; ++k) {
      if (shares[k] != 0.0F) spread[k] += value;
    }
  }
}

// Σ p ln(p / q), where a bin of p that q lacks costs 1; `beyond` joins the last bin of p. The logarithm and
// its product are float64, multiplied and added in one step; the sum is rounded to float32 after every bin.
// Rounding may leave less than nothing `beyond`; where that makes p negative the tool has no number, which is
// never its smallest: infinity here.
float tengine_candidate(const std::vector<float>& shares, const std::vector<float>& spread, int64_t kept,
                        float beyond) {
  float result = 0.0F;
  for (int64_t k = 0; k < kept; ++k) {
    const float p = k == kept - 1 ? shares[k] + beyond : shares[k];
    if (p == 0.0F) continue;
    if (spread[k] == 0.0F) {
      result += 1.0F;
    } else if (p < 0.0F) {
      return std::numeric_limits<float>::infinity();
    } else {
      const double log = natural_log(static_cast<double>(p / spread[k]));
      result = static_cast<float>(std::fma(static_cast<double>(p), log, static_cast<double>(result)));
    }
  }
  return result;
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
  std::vector<float> shares(n), spread(n);
  float total = 0.0F, beyond = 0.0F;
  for (int64_t k = 1; k < n; ++k) total += static_cast<float>(counts[k]);
  for (int64_t k = 1; k < n; ++k) shares[k] = total > 0.0F ? static_cast<float>(counts[k]) / total : 0.0F;
  for (int64_t k = levels; k < n; ++k) beyond += shares[k];
  std::vector<double> values;
  for (int64_t kept = levels; kept < n; ++kept) {
    spread_groups(shares, kept, levels, spread);
    values.push_back(static_cast<double>(tengine_candidate(shares, spread, kept, beyond)));
    beyond -= shares[kept];
  }
  return values;
}

}  // namespace calib8
