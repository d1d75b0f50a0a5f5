// Coverage-guided fuzzing of what counts and compares: histograms, bins of other tools, divergences,
// searches, rounding of weights (libFuzzer).
//
//   counts_fuzz CORPUS -max_total_time=60      any bytes: the first says what they are made into, the next
//   which
//
// Values get any bits. What is computed on several threads, by several sets or in several pieces must be the
// same; divergences and errors are never negative nor NaN. Arrays are exactly as long as told, so that a byte
// too many is seen.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "../../../csrc/accumulate.h"
#include "../../../csrc/layout_count.h"
#include "../../../csrc/layout_divergence.h"
#include "../../../csrc/search.h"
#include "../same_histogram.h"

namespace {

using Counts = std::vector<int64_t>;

void must(bool holds, const char* what) {
  if (!holds) std::fprintf(stderr, "%s\n", what), std::abort();
}

// Numbers made of bytes; zeros behind their end.
class Source {
 public:
  Source(const uint8_t* data, size_t size) : data_(data), left_(size) {}

  template <class Number>
  Number take() {
    Number number{};
    const size_t size = std::min(sizeof number, left_);
    if (size > 0) std::memcpy(&number, data_, size);
    data_ += size;
    left_ -= size;
    return number;
  }

  int64_t below(int64_t limit) { return take<uint16_t>() % limit; }
  double positive() { return std::ldexp(1.0 + take<uint8_t>() / 256.0, take<int8_t>() % 60); }

  template <class Number>
  std::vector<Number> rest() {
    std::vector<Number> numbers(left_ / sizeof(Number));
    for (Number& number : numbers) number = take<Number>();
    return numbers;
  }

  // Not negative, not all 0; each as wide as its own first byte says.
  Counts counts(size_t most) {
    Counts found;
    while (left_ > 0 && found.size() < most) {
      const int width = take<uint8_t>() % 40;
      found.push_back(width < 8 ? width % 2 : take<uint32_t>() & ((int64_t{1} << (width - 8)) - 1));
    }
    if (std::all_of(found.begin(), found.end(), [](int64_t count) { return count == 0; })) found.push_back(1);
    return found;
  }

 private:
  const uint8_t* data_;
  size_t left_;
};

void check_histograms(Source& source) {
  const int64_t first = source.below(4096);
  const bool bins = source.below(2) == 0;
  const std::vector<float> values = source.rest<float>();
  const auto n = static_cast<int64_t>(values.size()), cut = std::min(first, n);
  auto wanted = std::make_unique<calib8::Counter>(), merged = std::make_unique<calib8::Counter>();
  const calib8::Isa& reference = calib8::isa_by_name("reference");
  calib8::accumulate({{wanted.get(), calib8::dense_spans(values.data(), n, 1), bins}}, 1, reference);
  calib8::drain(*wanted);
  const calib8::Histogram& all = wanted->histogram;
  must(all.count == n && all.zeros >= 0 && all.zeros + all.nans + all.positive_infs + all.negative_infs <= n,
       "counts of values do not add up");
  for (const calib8::Isa* isa : calib8::available_isas(calib8::features())) {
    auto found = std::make_unique<calib8::Counter>();
    calib8::accumulate({{found.get(), calib8::dense_spans(values.data(), n, 1), bins}}, 3, *isa);
    calib8::drain(*found);
    must(calib8_checks::same(found->histogram, all), isa->name);
  }
  calib8::Extrema sample;
  for (const bool behind : {false, true}) {
    auto part = std::make_unique<calib8::Counter>();
    const auto look = bins ? reference.count : reference.measure;
    look(values.data() + (behind ? cut : 0), behind ? n - cut : cut, *part, sample);
    calib8::drain(*part);
    calib8::merge(merged->histogram, part->histogram);
  }
  calib8::end_sample(merged->histogram, sample);
  must(calib8_checks::same(merged->histogram, all), "merged pieces differ from the whole");
}

void check_bins(Source& source) {
  calib8::KeyBins bins;
  bins.magnitudes = source.below(2) == 0;
  bins.scale = source.take<double>();
  bins.shift = source.take<double>();
  bins.edges.resize(2 + static_cast<size_t>(source.below(300)));
  for (int32_t& edge : bins.edges) edge = source.take<int32_t>();
  std::sort(bins.edges.begin(), bins.edges.end());
  bins.edges.insert(bins.edges.begin(), INT32_MIN);
  bins.edges.push_back(INT32_MAX);
  const std::vector<float> values = source.rest<float>();
  Counts wanted(bins.edges.size() - 1);
  for (const float value : values) {
    int32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    int64_t key = bits & 0x7FFFFFFF;
    if (bits < 0 && !bins.magnitudes) key = -1 - key;
    key = std::min<int64_t>(key, INT32_MAX - 1);  // the last slot has no end
    const auto above = std::upper_bound(bins.edges.begin(), bins.edges.end(), key);
    ++wanted[static_cast<size_t>(above - bins.edges.begin() - 1)];
  }
  for (const int threads : {1, 3}) {
    Counts found(wanted.size());
    calib8::count_keys({{&bins, &found, values.data(), static_cast<int64_t>(values.size())}}, threads);
    must(found == wanted, "bins of another tool: other counts");
  }
}

void check_divergences(Source& source) {
  const int64_t which = source.below(5), levels = 2 + source.below(300);
  Counts counts = source.counts(2000);
  if (which == 3 && counts.size() % 2 == 0) counts.push_back(0);
  const auto n = static_cast<int64_t>(counts.size());
  constexpr decltype(&calib8::divergences_ncnn) kTools[] = {
      calib8::divergences_ncnn, calib8::divergences_tengine, calib8::divergences_smooth,
      calib8::divergences_mxnet};
  std::vector<double> found;
  if (which < 4) {
    found = kTools[which](counts.data(), n, levels);
  } else if (levels <= n) {
    found.resize(static_cast<size_t>(n - levels + 1));
    calib8::divergences(counts.data(), n, levels, found.data());
  }
  const double least = which == 1 ? -1e-3 : -1e-9;  // Tengine's sums are of float32
  for (const double value : found) must(value >= least, "a divergence is negative or NaN");
}

void check_errors(Source& source) {
  const int64_t codes = 1 + source.below(300), origin = source.below(4000) - 2000;
  std::vector<double> steps(1 + static_cast<size_t>(source.below(40)));
  Counts lowest(steps.size());
  for (double& step : steps) step = source.positive();
  for (int64_t& low : lowest) low = source.below(600) - 300;
  const Counts counts = source.counts(2000);
  std::vector<double> errors(steps.size());
  calib8::squared_errors(counts.data(), static_cast<int64_t>(counts.size()), origin,
                         {steps.data(), lowest.data(), static_cast<int64_t>(steps.size()), codes},
                         errors.data());
  double total = 0, farthest = static_cast<double>(counts.size()) + 2000;
  for (const int64_t count : counts) total += static_cast<double>(count);
  for (size_t i = 0; i < steps.size(); ++i) {  // rounding leaves 1e-15 of coding all as the largest code
    const double reach = farthest + steps[i] * static_cast<double>(std::abs(lowest[i]) + codes);
    must(errors[i] >= -1e-12 * total * reach * reach, "a squared error is negative or NaN");
  }
}

void check_rounding(Source& source) {
  const calib8::Rows shape{1 + source.below(2), 1 + source.below(4), 1 + source.below(24)};
  const int limit = 1 + static_cast<int>(source.below(127));
  const auto weights = static_cast<size_t>(shape.groups * shape.rows * shape.size);
  std::vector<double> values(weights), scales(static_cast<size_t>(shape.groups * shape.rows)),
      products(static_cast<size_t>(shape.groups * shape.size * shape.size));
  for (double& scale : scales) scale = source.positive();
  for (double& value : values) value = source.take<int16_t>() * source.positive();
  for (double& product : products) product = source.take<int16_t>();
  for (int64_t group = 0; group < shape.groups; ++group) {
    for (int64_t i = 0; i < shape.size; ++i) {
      double* const matrix = products.data() + group * shape.size * shape.size;
      for (int64_t j = 0; j < i; ++j) matrix[i * shape.size + j] = matrix[j * shape.size + i];
    }
  }
  std::vector<int8_t> wanted;
  for (const int threads : {1, 2}) {
    std::vector<double> factors = products;
    std::vector<int8_t> codes(weights);
    calib8::factor(factors.data(), shape.groups, shape.size, threads);
    calib8::round_in_turn(shape, values.data(), scales.data(), factors.data(), limit, codes.data(), threads);
    calib8::descend(shape, values.data(), scales.data(), products.data(), limit, 3, codes.data(), threads);
    for (const int8_t code : codes) must(std::abs(code) <= limit, "a code is beyond its limit");
    if (threads == 1) wanted = codes;
    must(codes == wanted, "codes depend on the number of threads");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr void (*kChecks[])(Source&) = {check_histograms, check_bins, check_divergences, check_errors,
                                          check_rounding};
  Source source(data, size);
  kChecks[source.take<uint8_t>() % std::size(kChecks)](source);
  return 0;
}
