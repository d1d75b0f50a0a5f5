// Compares counting in given bins with a plain search for the bin, and divergences with themselves elsewhere.
//
//   layout_check ROUNDS SEED      prints a checksum of all bits it got; exit code 1 at the first difference
//
// The same arguments must print the same checksum on every machine and from every compiler. Arrays are
// exactly as long as told, so that sanitizers see a read beyond them.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

#include "../../csrc/layout_count.h"
#include "../../csrc/layout_divergence.h"

namespace {

using Counts = std::vector<int64_t>;

uint64_t checksum = 0xcbf29ce484222325u;

void add(uint64_t bits) { checksum = (checksum ^ bits) * 0x100000001b3u; }

// Standard distributions differ between libraries; this one only takes remainders.
int64_t below(std::mt19937_64& random, int64_t limit) {
  return static_cast<int64_t>(random() % static_cast<uint64_t>(limit));
}

int64_t key_of(float value, bool magnitudes) {
  int32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  const int64_t magnitude = bits & 0x7FFFFFFF;
  return bits < 0 && !magnitudes ? -1 - magnitude : magnitude;
}

// Any bits at all, or values around the limit.
std::vector<float> sample(std::mt19937_64& random, float limit) {
  std::vector<float> values(below(random, below(random, 4) == 0 ? 300000 : 3000));
  const bool any = below(random, 3) == 0;
  for (float& value : values) {
    const uint32_t bits = static_cast<uint32_t>(random());
    const float share = static_cast<float>(static_cast<int32_t>(bits)) * 0x1p-31f;
    std::memcpy(&value, &bits, sizeof value);
    if (!any) value = bits % 5 == 0 ? 0.0f : share * limit;
  }
  return values;
}

calib8::KeyBins bins_of(std::mt19937_64& random, float limit) {
  calib8::KeyBins bins;
  bins.magnitudes = below(random, 2) == 0;
  const int64_t largest = key_of(limit, true), size = 1 + below(random, 9000);
  const int64_t lowest = bins.magnitudes ? 1 : -1 - largest;
  std::vector<int64_t> edges;
  for (int64_t i = 0; i < size; ++i) edges.push_back(lowest + below(random, largest - lowest + 1));
  edges.push_back(largest + 1);
  std::sort(edges.begin(), edges.end());
  bins.edges.push_back(INT32_MIN);
  for (const int64_t edge : edges) bins.edges.push_back(static_cast<int32_t>(edge));
  bins.edges.push_back(INT32_MAX);
  const double share = bins.magnitudes ? 0.0 : 0.5;
  bins.scale = (1.0 - share) * static_cast<double>(size) / static_cast<double>(limit);
  bins.shift = share * static_cast<double>(size);
  return bins;
}

bool check_counts(std::mt19937_64& random) {
  const float fraction = 1.0f + 0x1p-10f * static_cast<float>(below(random, 1024));
  const float limit = std::ldexp(fraction, static_cast<int>(below(random, 250)) - 130);
  const calib8::KeyBins bins = bins_of(random, limit);
  const std::vector<float> values = sample(random, limit);
  Counts expected(bins.edges.size() - 1);
  for (const float value : values) {
    const int64_t key = std::min<int64_t>(key_of(value, bins.magnitudes), INT32_MAX - 1);
    const auto above = std::upper_bound(bins.edges.begin(), bins.edges.end(), key);
    ++expected[above - bins.edges.begin() - 1];
  }
  for (const int threads : {1, 2, 5}) {
    Counts found(expected.size());
    const int64_t half = static_cast<int64_t>(values.size()) / 2,
                  rest = static_cast<int64_t>(values.size()) - half;
    calib8::count_keys({{&bins, &found, values.data(), half}, {&bins, &found, values.data() + half, rest}},
                       threads);
    if (found != expected) {
      std::printf("%zu values up to %g, %d threads: other counts\n", values.size(),
                  static_cast<double>(limit), threads);
      return false;
    }
  }
  for (const int64_t count : expected) add(static_cast<uint64_t>(count));
  return true;
}

bool check_divergences(std::mt19937_64& random) {
  Counts counts(3 + below(random, 1200));
  const int64_t filled = below(random, 3), largest = int64_t{1} << (1 + below(random, 40));
  for (int64_t& count : counts) count = below(random, 3) < filled ? 0 : below(random, largest);
  counts[below(random, static_cast<int64_t>(counts.size()))] += 1;
  const int64_t n = static_cast<int64_t>(counts.size()), levels = 2 + below(random, 256);
  for (const auto function : {calib8::divergences_ncnn, calib8::divergences_tengine,
                              calib8::divergences_smooth, calib8::divergences_mxnet}) {
    for (const double value :
         function(counts.data(), function == calib8::divergences_mxnet ? (n - 1) | 1 : n, levels)) {
      const double least = function == calib8::divergences_tengine ? -1e-3 : -1e-9;  // sums in float32
      if (std::isnan(value) || value < least) {
        std::printf("%lld bins, %lld levels: %g\n", static_cast<long long>(n), static_cast<long long>(levels),
                    value);
        return false;
      }
      uint64_t bits;
      std::memcpy(&bits, &value, sizeof bits);
      add(bits);
    }
  }
  return true;
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 3) {
    std::fprintf(stderr, "usage: layout_check ROUNDS SEED\n");
    return 2;
  }
  const int rounds = std::atoi(arguments[1]);
  std::mt19937_64 random(std::strtoull(arguments[2], nullptr, 10));
  for (int round = 0; round < rounds; ++round) {
    if (!check_counts(random) || !check_divergences(random)) return 1;
  }
  std::printf("%d arrays counted, %d histograms compared, checksum %016llx\n", rounds, rounds,
              static_cast<unsigned long long>(checksum));
  return 0;
}
