// calib8._core.search: what range searches compare, as Python sees it.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <stdexcept>

#include "search.h"

namespace nb = nanobind;
using nb::literals::operator""_a;

namespace calib8::search {
namespace {

using Counts = nb::ndarray<const int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Scales = nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Curve = nb::ndarray<nb::numpy, double, nb::ndim<1>>;

constexpr int64_t kMostBins = int64_t{1} << 30;
constexpr int64_t kMostCounts = int64_t{1} << 62;

// Throws unless there are counts, none of them negative, and their sum is in 1 … 2^62.
void check_counts(const Counts& counts) {
  if (static_cast<int64_t>(counts.size()) > kMostBins) throw std::invalid_argument("too many bins");
  int64_t total = 0;
  for (size_t k = 0; k < counts.size(); ++k) {
    const int64_t count = counts.data()[k];
    if (count < 0) throw std::invalid_argument("a count is negative");
    if (count > kMostCounts - total) throw std::invalid_argument("the counts add up to more than 2^62");
    total += count;
  }
  if (total == 0) throw std::invalid_argument("all counts are 0");
}

Curve as_array(std::unique_ptr<double[]> values, size_t size) {
  double* const data = values.release();
  const nb::capsule owner(data, [](void* pointer) noexcept { delete[] static_cast<double*>(pointer); });
  return Curve(data, {size}, owner);
}

Curve kl_divergences(const Counts& counts, int64_t levels) {
  const int64_t bins = static_cast<int64_t>(counts.size());
  if (levels < 1 || levels > bins) throw std::invalid_argument("levels must be in 1 ... the number of bins");
  check_counts(counts);
  const size_t candidates = static_cast<size_t>(bins - levels + 1);
  auto found = std::make_unique<double[]>(candidates);
  {
    const nb::gil_scoped_release released;
    divergences(counts.data(), bins, levels, found.get());
  }
  return as_array(std::move(found), candidates);
}

Curve squared_errors(const Counts& counts, int64_t origin, const Scales& steps, const Counts& lowest,
                     int64_t codes) {
  if (steps.size() != lowest.size()) throw std::invalid_argument("steps and lowest differ in length");
  if (codes < 1 || codes > 65536) throw std::invalid_argument("codes must be in 1 ... 65536");
  if (origin < -kMostBins || origin > kMostBins) throw std::invalid_argument("origin is out of range");
  check_counts(counts);
  for (size_t i = 0; i < steps.size(); ++i) {
    if (!(steps.data()[i] > 0 && steps.data()[i] < 0x1p64))
      throw std::invalid_argument("a step is out of range");
    if (std::abs(lowest.data()[i]) > 65536) throw std::invalid_argument("lowest is out of range");
  }
  auto found = std::make_unique<double[]>(steps.size());
  {
    const nb::gil_scoped_release released;
    const Candidates candidates{steps.data(), lowest.data(), static_cast<int64_t>(steps.size()), codes};
    calib8::squared_errors(counts.data(), static_cast<int64_t>(counts.size()), origin, candidates,
                           found.get());
  }
  return as_array(std::move(found), steps.size());
}

}  // namespace

void bind(nb::module_& m) {
  m.def("kl_divergences", &kl_divergences, "counts"_a.noconvert(), "levels"_a, nb::rv_policy::move);
  m.def("squared_errors", &squared_errors, "counts"_a.noconvert(), "origin"_a, "steps"_a.noconvert(),
        "lowest"_a.noconvert(), "codes"_a, nb::rv_policy::move);
}

}  // namespace calib8::search
