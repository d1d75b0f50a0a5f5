// What is too little work to be shared: to hand a step to other threads and to wait for them takes some
// hundred nanoseconds.
//
// nanoseconds(step) is about what a step takes one thread with AVX-512 on Zen 5, for the kinds of steps that
// small networks have many of; for all others it is more than enough. Slower sets take a few times as long,
// and then sharing would save at most as long as it takes here.
#pragma once

#include <cstdint>

#include "steps.h"

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

constexpr int64_t kWorthSharing = 500;  // nanoseconds

// Per nanosecond: products of a convolution and of a depthwise layer, bytes moved, elements computed,
// functions of float32.
constexpr double kProducts = 250, kDepthwiseProducts = 100, kBytes = 32, kElements = 16, kFunctions = 2;

// In float64, where products of sizes do not overflow.
inline double product(const Axes& sizes) {
  double count = 1;
  for (const int64_t size : sizes) count *= static_cast<double>(size);
  return count;
}
inline double elements(const View& view) {
  return static_cast<double>(view.pixels()) * static_cast<double>(view.channels);
}

inline double nanoseconds(const Conv& step) {
  const double taps = static_cast<double>(step.taps) * static_cast<double>(step.depth);
  return elements(step.output) * taps / kProducts;
}
inline double nanoseconds(const Depthwise& step) {
  return elements(step.output) * static_cast<double>(step.taps) / kDepthwiseProducts;
}
inline double nanoseconds(const FillHalo& step) {
  const View& view = step.view;
  const double rows = static_cast<double>(view.rows + step.top + step.bottom);
  const double columns = static_cast<double>(view.columns + step.left + step.right);
  const double inside = static_cast<double>(view.rows) * static_cast<double>(view.columns);
  const double images = static_cast<double>(view.images) * static_cast<double>(view.channels);
  return (rows * columns - inside) * images / kBytes;
}
inline double nanoseconds(const Copy& step) {
  return product(step.sizes) * static_cast<double>(step.run) / kBytes;
}
inline double nanoseconds(const Reduce& step) {
  return product(step.outer_sizes) * product(step.inner_sizes) / kBytes;
}
inline double nanoseconds(const Quantize& step) { return product(step.sizes) / kElements; }
inline double nanoseconds(const Dequantize& step) { return product(step.sizes) / kElements; }
inline double nanoseconds(const Requantize& step) { return product(step.tensors.sizes) / kElements; }
inline double nanoseconds(const Add& step) { return product(step.pair.sizes) / kElements; }
inline double nanoseconds(const Mul& step) { return product(step.pair.sizes) / kElements; }
inline double nanoseconds(const Div& step) { return product(step.pair.sizes) / kElements; }
inline double nanoseconds(const RealRescale& step) { return product(step.tensors.sizes) / kElements; }
inline double nanoseconds(const RealPair& step) { return product(step.pair.sizes) / kElements; }
inline double nanoseconds(const Extreme& step) { return product(step.pair.sizes) / kElements; }
// One thread takes a direction of a few samples; with nothing else to do the others are left alone.
inline double nanoseconds(const Recurrent& step) {
  return step.directions * step.samples > 1 ? kWorthSharing : 0;
}
inline double nanoseconds(const IntegerLstm& step) { return step.samples > 1 ? kWorthSharing : 0; }
inline double nanoseconds(const TimeFilter& step) {
  return static_cast<double>(step.samples * step.units) * static_cast<double>(step.length) / kElements;
}
inline double nanoseconds(const IntegerGru& step) { return step.samples > 1 ? kWorthSharing : 0; }
inline double nanoseconds(const Lookup& step) { return product(step.tensors.sizes) / kElements; }

inline double nanoseconds(const RealFunction& step) { return static_cast<double>(step.count) / kFunctions; }

// All others.
template <class Step>
constexpr double nanoseconds(const Step&) {
  return kWorthSharing;
}

}  // namespace
}  // namespace calib8::engine
