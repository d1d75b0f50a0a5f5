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
#include "taps.h"
#include "tensor_accumulator.h"

namespace nb = nanobind;
using nb::literals::operator""_a;

namespace calib8 {
namespace engine {
void bind(nb::module_& m);  // engine/bindings.cc
}
namespace layouts {
void bind(nb::module_& m);  // layout_bindings.cc
}
namespace search {
void bind(nb::module_& m);  // search_bindings.cc
}
namespace second_order {
void bind(nb::module_& m);  // second_order_bindings.cc
}
namespace {

using Values = nb::ndarray<const float, nb::c_contig, nb::device::cpu>;
using Counts = nb::ndarray<nb::numpy, int64_t, nb::ndim<1>>;

constexpr int kMostThreads = 256;

// The lock of an accumulator is only held without the GIL or for a short copy, and never while waiting for
// the GIL.
using Item = std::tuple<std::shared_ptr<TensorAccumulator>, Values, int64_t>;

// Throws std::invalid_argument where the values cannot be those of so many samples.
Work work_of(TensorAccumulator& accumulator, const Values& values, int64_t samples) {
  const auto n = static_cast<int64_t>(values.size());
  if (samples < 1 || n % samples != 0) {
    throw std::invalid_argument(std::to_string(n) + " values cannot be those of " + std::to_string(samples) +
                                " samples");
  }
  return {accumulator.counters.front().get(), dense_spans(values.data(), n, samples), accumulator.bins};
}

std::string update(TensorAccumulator& accumulator, const Values& values,
                   const std::optional<std::string>& name, int64_t samples) {
  const Isa& isa = name ? isa_by_name(*name) : active_isa();
  const Work work = work_of(accumulator, values, samples);
  const nb::gil_scoped_release released;
  const std::lock_guard<ForkMutex> lock(accumulator.mutex);
  accumulate({work}, 1, isa);
  return isa.name;
}

void merge_from(TensorAccumulator& accumulator, TensorAccumulator& other) {
  if (accumulator.bins != other.bins) throw std::invalid_argument("one of the two has no bins");
  auto copy = std::make_unique<Histogram>();
  {
    const std::lock_guard<ForkMutex> lock(other.mutex);
    *copy = other.settled();
  }
  const std::lock_guard<ForkMutex> lock(accumulator.mutex);
  merge(accumulator.settled(), *copy);
}

void clear(TensorAccumulator& accumulator) {
  const std::lock_guard<ForkMutex> lock(accumulator.mutex);
  accumulator.clear();
}

// All locks in one order of addresses, so that two calls cannot wait for each other.
std::vector<std::unique_lock<ForkMutex>> lock_all(const std::vector<Item>& items) {
  std::vector<TensorAccumulator*> accumulators;
  for (const Item& item : items) accumulators.push_back(std::get<0>(item).get());
  std::sort(accumulators.begin(), accumulators.end());
  if (std::adjacent_find(accumulators.begin(), accumulators.end()) != accumulators.end()) {
    throw std::invalid_argument("an accumulator appears twice");
  }
  std::vector<std::unique_lock<ForkMutex>> locks;
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
    work.push_back(work_of(*accumulator, values, samples));
  }
  const nb::gil_scoped_release released;
  const std::vector<std::unique_lock<ForkMutex>> locks = lock_all(items);
  accumulate(work, threads, isa);
  return isa.name;
}

Counts owned(std::unique_ptr<int64_t[]> counts, size_t n) {
  int64_t* const data = counts.get();
  const nb::capsule owner(data, [](void* pointer) noexcept { delete[] static_cast<int64_t*>(pointer); });
  (void)counts.release();
  return Counts(data, {n}, owner);
}

template <auto Field>
Counts bins(TensorAccumulator& accumulator) {
  auto copy = std::make_unique<int64_t[]>(kBins);
  {
    const std::lock_guard<ForkMutex> lock(accumulator.mutex);
    const auto& source = accumulator.settled().*Field;
    std::copy(source, source + kBins, copy.get());
  }
  return owned(std::move(copy), kBins);
}

template <auto Field>
Counts sum_parts(TensorAccumulator& accumulator) {
  auto copy = std::make_unique<int64_t[]>(ExactSum::kParts);
  {
    const std::lock_guard<ForkMutex> lock(accumulator.mutex);
    const auto& source = (accumulator.settled().*Field).parts;
    std::copy(source, source + ExactSum::kParts, copy.get());
  }
  return owned(std::move(copy), ExactSum::kParts);
}

template <auto Field>
auto get(TensorAccumulator& accumulator) {
  const std::lock_guard<ForkMutex> lock(accumulator.mutex);
  return accumulator.settled().*Field;
}

// Taps that nodes of graphs can name as long as this object lives.
struct PublishedTaps {
  PublishedTaps(std::vector<std::shared_ptr<TensorAccumulator>> accumulators, int threads) {
    if (threads < 1 || threads > kMostThreads) {
      throw std::invalid_argument("threads must be in 1 ... 256, not " + std::to_string(threads));
    }
    for (const auto& accumulator : accumulators) {
      if (accumulator == nullptr) throw std::invalid_argument("an accumulator is None");
    }
    taps = std::make_shared<Taps>(std::move(accumulators), threads);
    key = publish(taps);
  }
  ~PublishedTaps() { forget(key); }

  std::shared_ptr<Taps> taps;
  int64_t key = 0;
};

void bind_taps(nb::module_& m) {
  nb::class_<PublishedTaps>(m, "Taps")
      .def(nb::init<std::vector<std::shared_ptr<TensorAccumulator>>, int>(), "accumulators"_a, "threads"_a)
      .def_ro("key", &PublishedTaps::key)
      .def(
          "begin",
          [](PublishedTaps& self, int64_t samples, bool count, bool fingerprints) {
            if (samples < 1) throw std::invalid_argument("a run holds at least one sample");
            self.taps->begin(samples, count, fingerprints);
          },
          "samples"_a, "count"_a = true, "fingerprints"_a = false)
      .def_prop_ro("fired", [](const PublishedTaps& self) { return self.taps->fired(); })
      .def("shape", [](const PublishedTaps& self, size_t index) { return self.taps->latest(index).shape; })
      .def("fingerprints",
           [](const PublishedTaps& self, size_t index) { return self.taps->latest(index).fingerprints; });
}

using Names = std::vector<std::string>;

void bind_processor(nb::module_& m) {
  m.def("processor_features", [] { return names_of(processor_features()); });
  m.def("features", [] { return names_of(features()); });
  m.def(
      "cpu_type",
      [](const std::optional<Names>& of) { return cpu_type(of ? features_of(*of) : processor_features()); },
      "features"_a = nb::none());
  m.def(
      "available_isas",
      [](const std::optional<Names>& of) {
        Names names;
        for (const Isa* isa : available_isas(of ? features_of(*of) : features()))
          names.emplace_back(isa->name);
        return names;
      },
      "features"_a = nb::none());
  m.def(
      "chosen_isa",
      [](const Names& of, const std::string& name) {
        return std::string(chosen_isa(name, features_of(of)).name);
      },
      "features"_a, "name"_a = "");
}

}  // namespace

NB_MODULE(_core, m) {
  m.def("isa", [] { return std::string(active_isa().name); });
  bind_processor(m);
  m.def("accumulate", &accumulate_items, "items"_a.noconvert(), "threads"_a = 1, "isa"_a = nb::none());
  nb::class_<TensorAccumulator>(m, "TensorAccumulator")
      .def(nb::init<bool>(), "bins"_a = true)
      .def("update", &update, "values"_a.noconvert(), "isa"_a = nb::none(), "samples"_a = 1)
      .def("merge", &merge_from, "other"_a)
      .def("clear", &clear)
      .def_prop_ro("count", &get<&Histogram::count>)
      .def_prop_ro("zeros", &get<&Histogram::zeros>)
      .def_prop_ro("nans", &get<&Histogram::nans>)
      .def_prop_ro("positive_infs", &get<&Histogram::positive_infs>)
      .def_prop_ro("negative_infs", &get<&Histogram::negative_infs>)
      .def_prop_ro("minimum", &get<&Histogram::minimum>)
      .def_prop_ro("maximum", &get<&Histogram::maximum>)
      .def_prop_ro("exponent", &get<&Histogram::exponent>)
      .def_prop_ro("samples", &get<&Histogram::samples>)
      .def_ro("binned", &TensorAccumulator::bins)
      .def_prop_ro("minima", &sum_parts<&Histogram::minima>, nb::rv_policy::move)
      .def_prop_ro("maxima", &sum_parts<&Histogram::maxima>, nb::rv_policy::move)
      .def_prop_ro("positive", &bins<&Histogram::positive>, nb::rv_policy::move)
      .def_prop_ro("negative", &bins<&Histogram::negative>, nb::rv_policy::move);
  bind_taps(m);
  nb::module_ plans = m.def_submodule("engine", "plans run natively");
  engine::bind(plans);
  nb::module_ layout_functions = m.def_submodule("layouts", "bins and divergences of other tools");
  layouts::bind(layout_functions);
  nb::module_ searches = m.def_submodule("search", "what range searches compare");
  search::bind(searches);
  nb::module_ rounding = m.def_submodule("second_order", "rounding by second moments");
  second_order::bind(rounding);
}

}  // namespace calib8
