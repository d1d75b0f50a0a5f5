// The reference set: plain loops for every kind of step.
#include "reference/reference.h"

namespace calib8::engine {

void fill_reference(KernelTable& table) {
  set_kernel<FillHalo, reference_fill_halo>(table);
  set_kernel<Copy, reference_copy>(table);
  set_kernel<Quantize, reference_quantize>(table);
  set_kernel<Dequantize, reference_dequantize>(table);
  set_kernel<Conv, reference_conv>(table);
  set_kernel<Depthwise, reference_depthwise>(table);
  set_kernel<MatMul, reference_mat_mul>(table);
  set_kernel<Requantize, reference_requantize>(table);
  set_kernel<Add, reference_add>(table);
  set_kernel<AddSums, reference_add_sums>(table);
  set_kernel<Mul, reference_mul>(table);
  set_kernel<Div, reference_div>(table);
  set_kernel<RealRescale, reference_real_rescale>(table);
  set_kernel<RealPair, reference_real_pair>(table);
  set_kernel<Extreme, reference_extreme>(table);
  set_kernel<Lookup, reference_lookup>(table);
  set_kernel<MaxPool, reference_max_pool>(table);
  set_kernel<AveragePool, reference_average_pool>(table);
  set_kernel<Reduce, reference_reduce>(table);
  set_kernel<ArgMax, reference_arg_max>(table);
  set_kernel<Softmax, reference_softmax>(table);
  set_kernel<LayerNorm, reference_layer_norm>(table);
  set_kernel<GroupNorm, reference_group_norm>(table);
  set_kernel<Recurrent, reference_recurrent>(table);
  set_kernel<IntegerLstm, reference_integer_lstm>(table);
  set_kernel<TimeFilter, reference_time_filter>(table);
  set_kernel<RealFunction, reference_real_function>(table);
  set_kernel<IntegerGru, reference_integer_gru>(table);
  set_kernel<ResizeLinear, reference_resize_linear>(table);
  set_kernel<ResizeToFloat, reference_resize_to_float>(table);
  set_kernel<Plane, reference_plane>(table);
  set_kernel<Finish, reference_finish>(table);
  set_kernel<WideAdd, reference_wide_add>(table);
  set_kernel<WideMul, reference_wide_mul>(table);
  set_kernel<WideLookup, reference_wide_lookup>(table);
  set_kernel<WideMaxPool, reference_wide_max_pool>(table);
  set_kernel<WideQuantize, reference_wide_quantize>(table);
  set_kernel<WideDequantize, reference_wide_dequantize>(table);
  set_kernel<WideConv, reference_wide_conv>(table);
  set_kernel<WideDepthwise, reference_wide_depthwise>(table);
  set_kernel<WideFillHalo, reference_wide_fill_halo>(table);
  set_kernel<WideLength, reference_wide_length>(table);
  set_kernel<WideLayerNorm, reference_wide_layer_norm>(table);
}

}  // namespace calib8::engine
