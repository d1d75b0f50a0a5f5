// calib8._core: the statistics kernel as Python sees it; the engine is a submodule.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "accumulate.h"
#include "dispatch.h"
#include "histogram.h"

namespace nb = nanobind;
using nb::literals::operator""_a;

namespace calib8 {
namespace engine {
void bind(nb::module_& m);  // engine/bindings.cc
}
namespace layouts {
void bind(nb::module_& m);  // layout_bindings.cc
}
namespace {

using Values = nb::ndarray<const float, nb::c_contig, nb::device::cpu>;
using Counts = nb::ndarray<nb::numpy, int64_t, nb::shape<kBins>>;

constexpr int kMostThreads = 256;

// A histogram that two Python threads may use at once. The lock is only held without the GIL or for a short
// copy, and never while waiting for the GIL.
struct TensorAccumulator {
  std::mutex mutex;
  Histogram histogram;
};

using Item = std::pair<std::shared_ptr<TensorAccumulator>, Values>;

std::string update(TensorAccumulator& accumulator, const Values& values,
                   const std::optional<std::string>& name) {
  const Isa& isa = name ? isa_by_name(*name) : active_isa();
  const nb::gil_scoped_release released;
  const std::lock_guard<std::mutex> lock(accumulator.mutex);
  count_values(isa, values.data(), static_cast<int64_t>(values.size()), accumulator.histogram);
  return isa.name;
}

void merge_from(TensorAccumulator& accumulator, TensorAccumulator& other) {
  auto copy = std::make_unique<Histogram>();
  {
    const std::lock_guard<std::mutex> lock(other.mutex);
    *copy = other.histogram;
  }
  const std::lock_guard<std::mutex> lock(accumulator.mutex);
  merge(accumulator.histogram, *copy);
}

// All locks in one order of addresses, so that two calls cannot wait for each other.
std::vector<std::unique_lock<std::mutex>> lock_all(const std::vector<Item>& items) {
  std::vector<TensorAccumulator*> accumulators;
  for (const Item& item : items) accumulators.push_back(item.first.get());
  std::sort(accumulators.begin(), accumulators.end());
  if (std::adjacent_find(accumulators.begin(), accumulators.end()) != accumulators.end()) {
    throw std::invalid_argument("an accumulator appears twice");
  }
  std::vector<std::unique_lock<std::mutex>> locks;
  for (TensorAccumulator* accumulator : accumulators) locks.emplace_back(accumulator->mutex);
  return locks;
}

std::string accumulate_items(const std::vector<Item>& items, int threads,
                             const std::optional<std::string>& name) {
  if (threads < 1 || threads > kMostThreads) {
    throw std::invalid_argument("threads must be in 1 ... 256, not " + std::to_string(threads));
  }
  const Isa& isa = name ? isa_by_name(*name) : active_isa();
  std::vector<Work> work;
  for (const Item& item : items) {
    if (item.first == nullptr) throw std::invalid_argument("an accumulator is None");
    work.push_back({&item.first->histogram, item.second.data(), static_cast<int64_t>(item.second.size())});
  }
  const nb::gil_scoped_release released;
  const std::vector<std::unique_lock<std::mutex>> locks = lock_all(items);
  accumulate(work, threads, isa);
  return isa.name;
}

Counts copied(TensorAccumulator& accumulator, const int64_t (Histogram::*bins)[kBins]) {
  auto copy = std::make_unique<int64_t[]>(kBins);
  {
    const std::lock_guard<std::mutex> lock(accumulator.mutex);
    const int64_t (&source)[kBins] = accumulator.histogram.*bins;
    std::copy(source, source + kBins, copy.get());
  }
  int64_t* const data = copy.get();
  const nb::capsule owner(data, [](void* pointer) noexcept { delete[] static_cast<int64_t*>(pointer); });
  (void)copy.release();
  return Counts(data, {kBins}, owner);
}

template <auto Field>
auto get(TensorAccumulator& accumulator) {
  const std::lock_guard<std::mutex> lock(accumulator.mutex);
  return accumulator.histogram.*Field;
}

}  // namespace

NB_MODULE(_core, m) {
  m.def("isa", [] { return std::string(active_isa().name); });
  m.def("available_isas", [] {
    std::vector<std::string> names;
    for (const Isa* isa : available_isas()) names.emplace_back(isa->name);
    return names;
  });
  m.def("accumulate", &accumulate_items, "items"_a.noconvert(), "threads"_a = 1, "isa"_a = nb::none());
  nb::class_<TensorAccumulator>(m, "TensorAccumulator")
      .def(nb::init<>())
      .def("update", &update, "values"_a.noconvert(), "isa"_a = nb::none())
      .def("merge", &merge_from, "other"_a)
      .def_prop_ro("count", &get<&Histogram::count>)
      .def_prop_ro("zeros", &get<&Histogram::zeros>)
      .def_prop_ro("nans", &get<&Histogram::nans>)
      .def_prop_ro("positive_infs", &get<&Histogram::positive_infs>)
      .def_prop_ro("negative_infs", &get<&Histogram::negative_infs>)
      .def_prop_ro("minimum", &get<&Histogram::minimum>)
      .def_prop_ro("maximum", &get<&Histogram::maximum>)
      .def_prop_ro("exponent", &get<&Histogram::exponent>)
      .def_prop_ro(
          "positive", [](TensorAccumulator& a) { return copied(a, &Histogram::positive); },
          nb::rv_policy::move)
      .def_prop_ro(
          "negative", [](TensorAccumulator& a) { return copied(a, &Histogram::negative); },
          nb::rv_policy::move);
  nb::module_ plans = m.def_submodule("engine", "plans run natively");
  engine::bind(plans);
  nb::module_ layout_functions = m.def_submodule("layouts", "bins and divergences of other tools");
  layouts::bind(layout_functions);
}

}  // namespace calib8
