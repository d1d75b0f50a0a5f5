// calib8._core: the statistics kernel as Python sees it; the engine is a submodule.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
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
namespace search {
void bind(nb::module_& m);  // search_bindings.cc
}
namespace {

using Values = nb::ndarray<const float, nb::c_contig, nb::device::cpu>;
using Counts = nb::ndarray<nb::numpy, int64_t, nb::ndim<1>>;

constexpr int kMostThreads = 256;

// A histogram that two Python threads may use at once. The lock is only held without the GIL or for a short
// copy, and never while waiting for the GIL.
struct TensorAccumulator {
  std::mutex mutex;
  Histogram histogram;
};

using Item = std::tuple<std::shared_ptr<TensorAccumulator>, Values, int64_t>;

// Throws std::invalid_argument where the values cannot be those of so many samples.
Work work_of(Histogram& histogram, const Values& values, int64_t samples) {
  const auto n = static_cast<int64_t>(values.size());
  if (samples < 1 || n % samples != 0) {
    throw std::invalid_argument(std::to_string(n) + " values cannot be those of " + std::to_string(samples) +
                                " samples");
  }
  return {&histogram, values.data(), n, samples};
}

std::string update(TensorAccumulator& accumulator, const Values& values,
                   const std::optional<std::string>& name, int64_t samples) {
  const Isa& isa = name ? isa_by_name(*name) : active_isa();
  const Work work = work_of(accumulator.histogram, values, samples);
  const nb::gil_scoped_release released;
  const std::lock_guard<std::mutex> lock(accumulator.mutex);
  accumulate({work}, 1, isa);
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
  for (const Item& item : items) accumulators.push_back(std::get<0>(item).get());
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
  for (const auto& [accumulator, values, samples] : items) {
    if (accumulator == nullptr) throw std::invalid_argument("an accumulator is None");
    work.push_back(work_of(accumulator->histogram, values, samples));
  }
  const nb::gil_scoped_release released;
  const std::vector<std::unique_lock<std::mutex>> locks = lock_all(items);
  accumulate(work, threads, isa);
  return isa.name;
}

template <size_t N>
Counts copied(TensorAccumulator& accumulator, const int64_t (&source)[N]) {
  auto copy = std::make_unique<int64_t[]>(N);
  {
    const std::lock_guard<std::mutex> lock(accumulator.mutex);
    std::copy(source, source + N, copy.get());
  }
  int64_t* const data = copy.get();
  const nb::capsule owner(data, [](void* pointer) noexcept { delete[] static_cast<int64_t*>(pointer); });
  (void)copy.release();
  return Counts(data, {N}, owner);
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
      .def("update", &update, "values"_a.noconvert(), "isa"_a = nb::none(), "samples"_a = 1)
      .def("merge", &merge_from, "other"_a)
      .def_prop_ro("count", &get<&Histogram::count>)
      .def_prop_ro("zeros", &get<&Histogram::zeros>)
      .def_prop_ro("nans", &get<&Histogram::nans>)
      .def_prop_ro("positive_infs", &get<&Histogram::positive_infs>)
      .def_prop_ro("negative_infs", &get<&Histogram::negative_infs>)
      .def_prop_ro("minimum", &get<&Histogram::minimum>)
      .def_prop_ro("maximum", &get<&Histogram::maximum>)
      .def_prop_ro("exponent", &get<&Histogram::exponent>)
      .def_prop_ro("binned", [](TensorAccumulator&) { return true; })
      .def_prop_ro("samples", &get<&Histogram::samples>)
      .def_prop_ro(
          "minima", [](TensorAccumulator& a) { return copied(a, a.histogram.minima.parts); },
          nb::rv_policy::move)
      .def_prop_ro(
          "maxima", [](TensorAccumulator& a) { return copied(a, a.histogram.maxima.parts); },
          nb::rv_policy::move)
      .def_prop_ro(
          "positive", [](TensorAccumulator& a) { return copied(a, a.histogram.positive); },
          nb::rv_policy::move)
      .def_prop_ro(
          "negative", [](TensorAccumulator& a) { return copied(a, a.histogram.negative); },
          nb::rv_policy::move);
  nb::module_ plans = m.def_submodule("engine", "plans run natively");
  engine::bind(plans);
  nb::module_ searches = m.def_submodule("search", "what range searches compare");
  search::bind(searches);
}

}  // namespace calib8
