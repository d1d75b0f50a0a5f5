// Compares the range searches with their definitions as plain loops, on random histograms.
//
//   search_check ROUNDS SEED      prints a checksum of all bits it got; exit code 1 at the first difference
//
// The same arguments must print the same checksum on every machine and from every compiler.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "../../csrc/search.h"

namespace {

using Counts = std::vector<int64_t>;

// Standard distributions differ between libraries; this one only takes remainders.
int64_t below(std::mt19937_64& random, int64_t limit) {
  return static_cast<int64_t>(random() % static_cast<uint64_t>(limit));
}

Counts sample(std::mt19937_64& random) {
  Counts counts(2 + below(random, below(random, 4) == 0 ? 4095 : 300));
  const int64_t filled = below(random, 3), largest = int64_t{1} << (1 + below(random, 40));
  for (size_t k = 0; k < counts.size(); ++k) {
    const int64_t height = largest / static_cast<int64_t>(1 + k * k % 1000);
    counts[k] = below(random, 3) < filled ? 0 : below(random, height + 1);
  }
  counts[below(random, static_cast<int64_t>(counts.size()))] += 1;
  return counts;
}

// KL of the first `kept` bins, word by word as the method is described.
double divergence(const Counts& counts, int64_t kept, int64_t levels) {
  std::vector<double> reference(counts.begin(), counts.begin() + kept), candidate(kept);
  double total = 0, inside = 0, sum = 0;
  for (const int64_t count : counts) total += static_cast<double>(count);
  for (size_t k = kept; k < counts.size(); ++k) reference[kept - 1] += static_cast<double>(counts[k]);
  for (int64_t group = 0; group < levels; ++group) {
    const int64_t begin = (group * kept + levels - 1) / levels,
                  end = ((group + 1) * kept + levels - 1) / levels;
    double height = 0;
    int64_t size = 0;
    for (int64_t k = begin; k < end; ++k) {
      height += static_cast<double>(counts[k]);
      size += reference[k] > 0;
    }
    for (int64_t k = begin; k < end; ++k) {
      if (reference[k] > 0) candidate[k] = height / static_cast<double>(size);
    }
    inside += height;
  }
  for (int64_t k = 0; k < kept; ++k) {
    if (reference[k] <= 0) continue;
    if (candidate[k] <= 0) return std::numeric_limits<double>::infinity();
    sum += reference[k] / total * std::log(reference[k] / total / (candidate[k] / inside));
  }
  return sum;
}

// ∫ (x − code)² over each bin in pieces of one code: the bin is cut at every border that lies within it.
double squared_error(const Counts& counts, int64_t origin, double step, int64_t lowest, int64_t codes) {
  double sum = 0;
  for (size_t k = 0; k < counts.size(); ++k) {
    double left = static_cast<double>(static_cast<int64_t>(k) - origin);
    const double end = left + 1;
    for (int64_t code = lowest; code < lowest + codes; ++code) {
      const double border = step * (static_cast<double>(code) + 0.5);
      const double right = code + 1 == lowest + codes ? end : std::fmin(border, end);
      if (right <= left) continue;
      const double a = left - step * static_cast<double>(code), b = right - step * static_cast<double>(code);
      sum += static_cast<double>(counts[k]) * (b * b * b - a * a * a) / 3;
      left = right;
    }
  }
  return sum;
}

uint64_t checksum = 0xcbf29ce484222325u;

void add(const std::vector<double>& values) {
  for (const double value : values) {
    uint64_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    checksum = (checksum ^ bits) * 0x100000001b3u;
  }
}

bool check_divergences(const Counts& counts, std::mt19937_64& random) {
  const int64_t bins = static_cast<int64_t>(counts.size());
  const int64_t levels = 1 + below(random, bins < 256 ? bins : 256);
  std::vector<double> found(bins - levels + 1);
  calib8::divergences(counts.data(), bins, levels, found.data());
  add(found);
  for (int64_t kept = levels; kept <= bins; kept += 1 + below(random, 50)) {
    const double exact = divergence(counts, kept, levels), got = found[kept - levels];
    if (std::isinf(exact) ? got == exact : std::fabs(got - exact) < 1e-11) continue;
    std::printf("%lld bins, %lld levels, %lld kept: %.17g, not %.17g\n", static_cast<long long>(bins),
                static_cast<long long>(levels), static_cast<long long>(kept), got, exact);
    return false;
  }
  return true;
}

bool check_errors(const Counts& counts, std::mt19937_64& random) {
  const int64_t bins = static_cast<int64_t>(counts.size()), origin = below(random, bins + 1);
  const int64_t codes = 1 + below(random, 256), size = 1 + below(random, 150);
  std::vector<double> steps(size), found(size);
  std::vector<int64_t> lowest(size);
  double total = 0;
  for (const int64_t count : counts) total += static_cast<double>(count);
  for (int64_t i = 0; i < size; ++i) {
    steps[i] = static_cast<double>(1 + below(random, 2 * bins)) / static_cast<double>(codes);
    lowest[i] = below(random, 3 * codes) - 2 * codes;
  }
  calib8::squared_errors(counts.data(), bins, origin, {steps.data(), lowest.data(), size, codes},
                         found.data());
  add(found);
  for (int64_t i = 0; i < size; i += 1 + below(random, 40)) {
    const double exact = squared_error(counts, origin, steps[i], lowest[i], codes);
    const double far =
        std::fabs(steps[i] * static_cast<double>(lowest[i] + codes - 1)) + static_cast<double>(bins);
    if (std::fabs(found[i] - exact) <= 1e-11 * total * far * far) continue;
    std::printf("%lld bins, step %g, %lld codes from %lld: %.17g, not %.17g\n", static_cast<long long>(bins),
                steps[i], static_cast<long long>(codes), static_cast<long long>(lowest[i]), found[i], exact);
    return false;
  }
  return true;
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 3) {
    std::fprintf(stderr, "usage: search_check ROUNDS SEED\n");
    return 2;
  }
  const int rounds = std::atoi(arguments[1]);
  std::mt19937_64 random(std::strtoull(arguments[2], nullptr, 10));
  for (int round = 0; round < rounds; ++round) {
    const Counts counts = sample(random);
    if (!check_divergences(counts, random) || !check_errors(counts, random)) return 1;
  }
  std::printf("%d histograms searched, checksum %016llx\n", rounds,
              static_cast<unsigned long long>(checksum));
  return 0;
}
