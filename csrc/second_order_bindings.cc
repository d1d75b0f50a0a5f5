// calib8._core.second_order: rounding by second moments, as Python sees it.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <stdexcept>

#include "second_order.h"

namespace nb = nanobind;
using nb::literals::operator""_a;

namespace calib8::second_order {
namespace {

using Values = nb::ndarray<const double, nb::ndim<3>, nb::c_contig, nb::device::cpu>;
using Scales = nb::ndarray<const double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Codes = nb::ndarray<const int8_t, nb::ndim<3>, nb::c_contig, nb::device::cpu>;
template <typename T>
using Result = nb::ndarray<nb::numpy, T, nb::ndim<3>>;

constexpr int kMostThreads = 256;

void require(bool holds, const char* problem) {
  if (!holds) throw std::invalid_argument(problem);
}

template <typename T>
Result<T> as_array(std::unique_ptr<T[]> values, size_t groups, size_t rows, size_t size) {
  T* const data = values.release();
  const nb::capsule owner(data, [](void* pointer) noexcept { delete[] static_cast<T*>(pointer); });
  return Result<T>(data, {groups, rows, size}, owner);
}

void check_products(const Values& products, int threads) {
  require(products.shape(1) == products.shape(2), "products must be square");
  require(threads >= 1 && threads <= kMostThreads, "threads must be in 1 ... 256");
}

// Throws unless the arrays belong together.
Rows shape_of(const Values& rows, const Values& products, int threads) {
  check_products(products, threads);
  require(rows.shape(0) == products.shape(0), "there must be as many products as groups of rows");
  require(rows.shape(2) == products.shape(2), "rows and products must have one size");
  return {static_cast<int64_t>(rows.shape(0)), static_cast<int64_t>(rows.shape(1)),
          static_cast<int64_t>(rows.shape(2))};
}

void check_scales(const Scales& scales, const Rows& shape, int limit) {
  require(static_cast<int64_t>(scales.shape(0)) == shape.groups, "a group lacks its scales");
  require(static_cast<int64_t>(scales.shape(1)) == shape.rows, "there must be a scale per row");
  for (size_t i = 0; i < scales.size(); ++i) require(scales.data()[i] > 0, "a scale is not positive");
  require(limit >= 1 && limit <= 127, "limit must be in 1 ... 127");
}

Result<double> factored(const Values& products, int threads) {
  check_products(products, threads);
  auto found = std::make_unique<double[]>(products.size());
  std::copy(products.data(), products.data() + products.size(), found.get());
  {
    const nb::gil_scoped_release released;
    factor(found.get(), static_cast<int64_t>(products.shape(0)), static_cast<int64_t>(products.shape(1)),
           threads);
  }
  return as_array(std::move(found), products.shape(0), products.shape(1), products.shape(2));
}

Result<int8_t> rounded_in_turn(const Values& weights, const Scales& scales, const Values& factors, int limit,
                               int threads) {
  const Rows shape = shape_of(weights, factors, threads);
  check_scales(scales, shape, limit);
  auto codes = std::make_unique<int8_t[]>(weights.size());
  {
    const nb::gil_scoped_release released;
    round_in_turn(shape, weights.data(), scales.data(), factors.data(), limit, codes.get(), threads);
  }
  return as_array(std::move(codes), weights.shape(0), weights.shape(1), weights.shape(2));
}

Result<int8_t> descended(const Values& weights, const Scales& scales, const Values& products,
                         const Codes& codes, int limit, int sweeps, int threads) {
  const Rows shape = shape_of(weights, products, threads);
  check_scales(scales, shape, limit);
  for (size_t axis = 0; axis < 3; ++axis) {
    require(codes.shape(axis) == weights.shape(axis), "there must be a code per weight");
  }
  require(sweeps >= 0, "sweeps must not be negative");
  auto found = std::make_unique<int8_t[]>(codes.size());
  std::copy(codes.data(), codes.data() + codes.size(), found.get());
  {
    const nb::gil_scoped_release released;
    descend(shape, weights.data(), scales.data(), products.data(), limit, sweeps, found.get(), threads);
  }
  return as_array(std::move(found), weights.shape(0), weights.shape(1), weights.shape(2));
}

Result<double> multiplied(const Values& rows, const Values& matrix, int threads) {
  require(threads >= 1 && threads <= kMostThreads, "threads must be in 1 ... 256");
  require(rows.shape(0) == matrix.shape(0), "there must be as many matrices as groups of rows");
  require(rows.shape(2) == matrix.shape(1), "rows must be as long as the matrix is high");
  const Rows shape{static_cast<int64_t>(rows.shape(0)), static_cast<int64_t>(rows.shape(1)),
                   static_cast<int64_t>(rows.shape(2))};
  auto found = std::make_unique<double[]>(rows.shape(0) * rows.shape(1) * matrix.shape(2));
  {
    const nb::gil_scoped_release released;
    multiply(shape, static_cast<int64_t>(matrix.shape(2)), rows.data(), matrix.data(), found.get(), threads);
  }
  return as_array(std::move(found), rows.shape(0), rows.shape(1), matrix.shape(2));
}

}  // namespace

void bind(nb::module_& m) {
  m.def("factor", &factored, "products"_a.noconvert(), "threads"_a = 1, nb::rv_policy::move);
  m.def("round_in_turn", &rounded_in_turn, "weights"_a.noconvert(), "scales"_a.noconvert(),
        "factors"_a.noconvert(), "limit"_a, "threads"_a = 1, nb::rv_policy::move);
  m.def("descend", &descended, "weights"_a.noconvert(), "scales"_a.noconvert(), "products"_a.noconvert(),
        "codes"_a.noconvert(), "limit"_a, "sweeps"_a, "threads"_a = 1, nb::rv_policy::move);
  m.def("multiply", &multiplied, "rows"_a.noconvert(), "matrix"_a.noconvert(), "threads"_a = 1,
        nb::rv_policy::move);
}

}  // namespace calib8::second_order
