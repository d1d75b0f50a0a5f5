// The kernels written for vectors of any width, as entries of a table; each instruction set compiles its own.
#pragma once

#include "arg_max.h"
#include "average_pool.h"
#include "group_norm.h"
#include "kernels.h"
#include "layer_norm.h"
#include "mat_mul.h"
#include "max_pool.h"
#include "reduce.h"
#include "resize.h"
#include "resize_to_float.h"
#include "softmax.h"

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

void fill_pools(KernelTable& table) {
  set_kernel<MaxPool, max_pool>(table);
  set_kernel<WideMaxPool, wide_max_pool>(table);
  set_kernel<AveragePool, average_pool>(table);
  set_kernel<Reduce, reduce>(table);
  set_kernel<ArgMax, arg_max>(table);
  set_kernel<Softmax, softmax>(table);
  set_kernel<LayerNorm, layer_norm>(table);
  set_kernel<GroupNorm, group_norm>(table);
  set_kernel<ResizeLinear, resize_linear>(table);
  set_kernel<ResizeToFloat, resize_to_float>(table);
  set_kernel<MatMul, mat_mul>(table);
}

}  // namespace
}  // namespace calib8::engine
