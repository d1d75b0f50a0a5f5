// MXNet and the Python form: zeros of both distributions become ε, taken off the other bins in equal parts.
//
// With H the kept counts, m of them, z zero ones and e = ε·z / (m − z), a candidate needs Σ (H − e) ln (H −
// e) over its bins. e differs from candidate to candidate, but it is below 1, so for counts c ≥ 64
//
//   (c − e) ln (c − e) = c ln c − e (1 + ln c) + Σ_{j ≥ 2} e^j / (j (j − 1) c^(j−1))          7 terms suffice
//
// and prefix sums of ln c, c ln c and powers of 1/c give them all; smaller counts are kept by how often each
// occurs.
#include <limits>

#include "layout_divergence.h"
#include "natural_log.h"

namespace calib8 {
namespace {

constexpr double kEpsilon = 1e-4;
constexpr int64_t kSmall = 64;
constexpr int kPowers = 6;

double times_log(double x) { return x > 0.0 ? x * natural_log(x) : 0.0; }

struct Prefix {
  std::vector<int64_t> counts, filled, large;
  std::vector<double> logs, information, powers[kPowers];

  Prefix(const int64_t* histogram, int64_t n)
      : counts(n + 1), filled(n + 1), large(n + 1), logs(n + 1), information(n + 1) {
    for (std::vector<double>& power : powers) power.resize(n + 1);
    for (int64_t k = 0; k < n; ++k) {
      const int64_t count = histogram[k];
      const bool is_large = count >= kSmall;
      const double value = is_large ? static_cast<double>(count) : 1.0;
      const double ln = natural_log(value);
      counts[k + 1] = counts[k] + count;
      filled[k + 1] = filled[k] + (count != 0);
      large[k + 1] = large[k] + is_large;
      logs[k + 1] = logs[k] + ln;
      information[k + 1] = information[k] + value * ln;
      double inverse = is_large ? 1.0 : 0.0;
      for (std::vector<double>& power : powers) {
        inverse /= value;
        power[k + 1] = power[k] + inverse;
      }
    }
  }
};

// Σ (H − e) ln (H − e) over the bins that were added and whose H is not 0.
class Information {
 public:
  Information(const int64_t* histogram, const Prefix& sums) : histogram_(histogram), sums_(sums) {}

  void add(int64_t bin) {
    if (histogram_[bin] < kSmall) ++occurrences_[histogram_[bin]];
  }

  // The added bins are from … to − 1.
  double over(int64_t from, int64_t to, double taken) const {
    if (from >= to) return 0.0;
    double sum = 0.0;
    for (int64_t count = 1; count < kSmall; ++count) {
      if (occurrences_[count] == 0) continue;
      sum += static_cast<double>(occurrences_[count]) * times_log(static_cast<double>(count) - taken);
    }
    const double logs = sums_.logs[to] - sums_.logs[from];
    sum += sums_.information[to] - sums_.information[from];
    sum -= taken * (static_cast<double>(sums_.large[to] - sums_.large[from]) + logs);
    double factor = taken;
    for (int j = 0; j < kPowers; ++j) {
      factor *= taken;
      sum += factor / ((j + 2) * (j + 1)) * (sums_.powers[j][to] - sums_.powers[j][from]);
    }
    return sum;
  }

 private:
  const int64_t* histogram_;
  const Prefix& sums_;
  int64_t occurrences_[kSmall] = {};
};

// A group of bins that share one value of Q: how many, the value, what of P lies in them.
struct Group {
  int64_t bins = 0;
  double value = 0.0;
  int64_t weight = 0;  // Σ P before smoothing
  int64_t filled = 0;  // bins of it with P ≠ 0
};

// ε·zeros / others: what each other bin gives.
double taken_from(int64_t bins, int64_t filled) {
  return kEpsilon * static_cast<double>(bins - filled) / static_cast<double>(filled);
}

// KL of P (its Σ P ln P over filled bins given) and the Q of the groups; bins of no group have Q = 0.
double divergence(double information, int64_t bins, int64_t filled, int64_t total, double taken,
                  const std::vector<Group>& groups) {
  int64_t covered = 0;
  double mass = 0.0;
  for (const Group& group : groups) {
    covered += group.bins;
    mass += static_cast<double>(group.bins) * group.value;
  }
  if (covered == 0) return std::numeric_limits<double>::infinity();
  const double taken_q = taken_from(bins, covered), sum = static_cast<double>(total);
  const double log_epsilon = natural_log(kEpsilon);
  double cross = 0.0, inside = 0.0;
  for (const Group& group : groups) {
    if (group.bins == 0) continue;
    const double weight = static_cast<double>(group.weight) - taken * static_cast<double>(group.filled) +
                          kEpsilon * static_cast<double>(group.bins - group.filled);
    cross += weight * natural_log(group.value - taken_q);
    inside += weight;
  }
  cross += (sum - inside) * log_epsilon;
  const double own = information + kEpsilon * static_cast<double>(bins - filled) * log_epsilon;
  return (own - cross) / sum - natural_log(sum) + natural_log(mass);
}

// Group j of the first `kept` bins; the last group leaves out the last bin, but not its count.
Group smooth_group(const Prefix& sums, int64_t kept, int64_t levels, int64_t j) {
  const bool is_last = j == levels - 1;
  const int64_t width = kept / levels, start = j * width;
  const int64_t stop = is_last ? kept - 1 : start + width, end = is_last ? kept : stop;
  Group group;
  group.filled = sums.filled[stop] - sums.filled[start];
  if (group.filled == 0) return group;
  group.bins = stop - start;
  group.weight = sums.counts[stop] - sums.counts[start];
  group.value =
      static_cast<double>(sums.counts[end] - sums.counts[start]) / static_cast<double>(group.filled);
  return group;
}

// Group j of the bins begin … end − 1. Q knows neither the counts beyond nor the first bin, P has all of them
// in its first and last bin.
Group mxnet_group(const Prefix& sums, int64_t begin, int64_t end, int64_t levels, int64_t j) {
  const int64_t width = (end - begin) / levels, start = begin + j * width;
  const int64_t stop = j == levels - 1 ? end : start + width, from = j == 0 ? start + 1 : start;
  const int64_t filled = sums.filled[stop] - sums.filled[from];
  Group group;
  if (filled == 0) return group;
  group.weight = sums.counts[stop] - sums.counts[from];
  group.value = static_cast<double>(group.weight) / static_cast<double>(filled);
  group.filled = filled;
  if (j == 0) {
    group.weight += sums.counts[from];
    group.filled += sums.counts[from] != 0;
  }
  if (j == levels - 1) {
    group.weight += sums.counts.back() - sums.counts[end];
    group.filled += sums.counts[end] == sums.counts[end - 1] && sums.counts.back() != sums.counts[end];
  }
  group.bins = group.filled;
  return group;
}

}  // namespace

std::vector<double> divergences_smooth(const int64_t* counts, int64_t n, int64_t levels) {
  const Prefix sums(counts, n);
  Information information(counts, sums);
  std::vector<Group> groups(levels);
  std::vector<double> values;
  for (int64_t bin = 0; bin + 1 < levels && bin < n; ++bin) information.add(bin);
  for (int64_t kept = levels; kept < n; ++kept) {
    const int64_t inner = kept - 1, last = sums.counts[n] - sums.counts[inner];
    if (kept > levels) information.add(inner - 1);
    for (int64_t j = 0; j < levels; ++j) groups[j] = smooth_group(sums, kept, levels, j);
    const int64_t filled = sums.filled[inner] + (last != 0);
    const double taken = taken_from(kept, filled);
    const double own = information.over(0, inner, taken) + times_log(static_cast<double>(last) - taken);
    values.push_back(divergence(own, kept, filled, sums.counts[n], taken, groups));
  }
  return values;
}

std::vector<double> divergences_mxnet(const int64_t* counts, int64_t n, int64_t levels) {
  const Prefix sums(counts, n);
  Information information(counts, sums);
  const int64_t middle = n / 2, total = sums.counts[n];
  std::vector<Group> groups(levels);
  std::vector<double> values;
  int64_t added = 0;  // the interior is middle − added + 1 … middle + added − 1
  for (int64_t half = levels / 2; half <= middle; ++half) {
    const int64_t begin = middle - half, end = middle + half + 1, bins = end - begin;
    for (; added < half; ++added) {
      information.add(middle + added);
      if (added > 0) information.add(middle - added);
    }
    for (int64_t j = 0; j < levels; ++j) groups[j] = mxnet_group(sums, begin, end, levels, j);
    const int64_t first = sums.counts[begin + 1], last = total - sums.counts[end - 1];
    const int64_t filled = sums.filled[end - 1] - sums.filled[begin + 1] + (first != 0) + (last != 0);
    const double taken = taken_from(bins, filled);
    const double own = information.over(begin + 1, end - 1, taken) +
                       times_log(static_cast<double>(first) - taken) +
                       times_log(static_cast<double>(last) - taken);
    values.push_back(divergence(own, bins, filled, total, taken, groups));
  }
  return values;
}

}  // namespace calib8
