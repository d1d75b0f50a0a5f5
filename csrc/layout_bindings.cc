// calib8._core.layouts: counting in the bins of other tools, and their divergences.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "forks.h"
#include "layout_count.h"
#include "layout_divergence.h"

namespace nb = nanobind;
using nb::literals::operator""_a;

namespace calib8::layouts {
namespace {

using Values = nb::ndarray<const float, nb::c_contig, nb::device::cpu>;
using Edges = nb::ndarray<const int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Histogram = nb::ndarray<const int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

constexpr int kMostThreads = 256;

template <class Number>
nb::ndarray<nb::numpy, Number, nb::ndim<1>> to_array(const std::vector<Number>& values) {
  auto copy = std::make_unique<Number[]>(values.size());
  std::copy(values.begin(), values.end(), copy.get());
  Number* const data = copy.get();
  const nb::capsule owner(data, [](void* pointer) noexcept { delete[] static_cast<Number*>(pointer); });
  (void)copy.release();
  return nb::ndarray<nb::numpy, Number, nb::ndim<1>>(data, {values.size()}, owner);
}

// Counts of one tensor in fixed bins.
struct KeyCounter {
  KeyBins bins;
  KeyCounts counts;

  KeyCounter(const Edges& edges, bool magnitudes, double scale, double shift)
      : bins{{INT32_MIN}, magnitudes, scale, shift}, counts(edges.size() + 1) {
    if (edges.size() < 2 || !std::is_sorted(edges.data(), edges.data() + edges.size())) {
      throw std::invalid_argument("edges must be two or more ascending keys");
    }
    bins.edges.insert(bins.edges.end(), edges.data(), edges.data() + edges.size());
    bins.edges.push_back(INT32_MAX);
  }
};

using Item = std::pair<std::shared_ptr<KeyCounter>, Values>;

ForkMutex counting;  // two calls at once would share counters

void count_items(const std::vector<Item>& items, int threads) {
  if (threads < 1 || threads > kMostThreads) {
    throw std::invalid_argument("threads must be in 1 ... 256, not " + std::to_string(threads));
  }
  std::vector<KeyWork> work;
  for (const Item& item : items) {
    if (item.first == nullptr) throw std::invalid_argument("a counter is None");
    work.push_back({&item.first->bins, &item.first->counts, item.second.data(),
                    static_cast<int64_t>(item.second.size())});
  }
  const nb::gil_scoped_release released;
  const std::lock_guard<ForkMutex> lock(counting);
  count_keys(work, threads);
}

template <auto Function>
nb::ndarray<nb::numpy, double, nb::ndim<1>> curve(const Histogram& histogram, int64_t levels) {
  const int64_t* const counts = histogram.data();
  const int64_t n = static_cast<int64_t>(histogram.size());
  if (levels < 2) throw std::invalid_argument("levels must be 2 or more, not " + std::to_string(levels));
  int64_t total = 0;
  for (int64_t k = 0; k < n; ++k) {
    if (counts[k] < 0) throw std::invalid_argument("a count is negative");
    total += counts[k];
  }
  if (total == 0) throw std::invalid_argument("all counts are 0");
  std::vector<double> values;
  {
    const nb::gil_scoped_release released;
    values = Function(counts, n, levels);
  }
  return to_array(values);
}

}  // namespace

void bind(nb::module_& m) {
  nb::class_<KeyCounter>(m, "KeyCounter")
      .def(nb::init<const Edges&, bool, double, double>(), "edges"_a.noconvert(), "magnitudes"_a, "scale"_a,
           "shift"_a)
      .def_prop_ro(
          "bins",
          [](const KeyCounter& c) {
            return to_array(std::vector<int64_t>(c.counts.begin() + 1, c.counts.end() - 1));
          },
          nb::rv_policy::move)
      .def_prop_ro("below", [](const KeyCounter& c) { return c.counts.front(); })
      .def_prop_ro("outside", [](const KeyCounter& c) { return c.counts.back(); });
  m.def("count", &count_items, "items"_a.noconvert(), "threads"_a = 1);
  m.def("divergences_ncnn", &curve<divergences_ncnn>, "counts"_a.noconvert(), "levels"_a);
  m.def("divergences_tengine", &curve<divergences_tengine>, "counts"_a.noconvert(), "levels"_a);
  m.def("divergences_smooth", &curve<divergences_smooth>, "counts"_a.noconvert(), "levels"_a);
  m.def("divergences_mxnet", &curve<divergences_mxnet>, "counts"_a.noconvert(), "levels"_a);
}

}  // namespace calib8::layouts
