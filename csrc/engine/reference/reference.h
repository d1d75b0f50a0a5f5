// The plain-loop kernels, one per kind of step.
#pragma once

#include "kernels.h"

namespace calib8::engine {

void reference_fill_halo(const FillHalo& step, const Memory& memory, Part part);
void reference_copy(const Copy& step, const Memory& memory, Part part);
void reference_quantize(const Quantize& step, const Memory& memory, Part part);
void reference_dequantize(const Dequantize& step, const Memory& memory, Part part);
void reference_conv(const Conv& step, const Memory& memory, Part part);
void reference_depthwise(const Depthwise& step, const Memory& memory, Part part);
void reference_mat_mul(const MatMul& step, const Memory& memory, Part part);
void reference_requantize(const Requantize& step, const Memory& memory, Part part);
void reference_add(const Add& step, const Memory& memory, Part part);
void reference_add_sums(const AddSums& step, const Memory& memory, Part part);
void reference_mul(const Mul& step, const Memory& memory, Part part);
void reference_div(const Div& step, const Memory& memory, Part part);
void reference_real_rescale(const RealRescale& step, const Memory& memory, Part part);
void reference_real_pair(const RealPair& step, const Memory& memory, Part part);
void reference_extreme(const Extreme& step, const Memory& memory, Part part);
void reference_lookup(const Lookup& step, const Memory& memory, Part part);
void reference_max_pool(const MaxPool& step, const Memory& memory, Part part);
void reference_average_pool(const AveragePool& step, const Memory& memory, Part part);
void reference_reduce(const Reduce& step, const Memory& memory, Part part);
void reference_arg_max(const ArgMax& step, const Memory& memory, Part part);
void reference_softmax(const Softmax& step, const Memory& memory, Part part);
void reference_layer_norm(const LayerNorm& step, const Memory& memory, Part part);
void reference_group_norm(const GroupNorm& step, const Memory& memory, Part part);
void reference_recurrent(const Recurrent& step, const Memory& memory, Part part);
void reference_integer_lstm(const IntegerLstm& step, const Memory& memory, Part part);
void reference_time_filter(const TimeFilter& step, const Memory& memory, Part part);
void reference_real_function(const RealFunction& step, const Memory& memory, Part part);
void reference_integer_gru(const IntegerGru& step, const Memory& memory, Part part);
void reference_resize_linear(const ResizeLinear& step, const Memory& memory, Part part);
void reference_resize_to_float(const ResizeToFloat& step, const Memory& memory, Part part);
void reference_plane(const Plane& step, const Memory& memory, Part part);
void reference_finish(const Finish& step, const Memory& memory, Part part);
void reference_wide_add(const WideAdd& step, const Memory& memory, Part part);
void reference_wide_mul(const WideMul& step, const Memory& memory, Part part);
void reference_wide_lookup(const WideLookup& step, const Memory& memory, Part part);
void reference_wide_max_pool(const WideMaxPool& step, const Memory& memory, Part part);
void reference_wide_quantize(const WideQuantize& step, const Memory& memory, Part part);
void reference_wide_dequantize(const WideDequantize& step, const Memory& memory, Part part);
void reference_wide_conv(const WideConv& step, const Memory& memory, Part part);
void reference_wide_depthwise(const WideDepthwise& step, const Memory& memory, Part part);
void reference_wide_fill_halo(const WideFillHalo& step, const Memory& memory, Part part);
void reference_wide_length(const WideLength& step, const Memory& memory, Part part);
void reference_wide_layer_norm(const WideLayerNorm& step, const Memory& memory, Part part);

}  // namespace calib8::engine
