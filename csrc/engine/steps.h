// What an engine can do: one plain struct per kind of step, with its fields in the order in which plans store
// them.
//
// All codes are stored as uint8: an int8 code is stored as code + 128 ("stored" below, the other one is
// "raw"). Whoever makes a plan shifts zero points and clamps accordingly. `constant` fields are byte offsets
// into the constants of the plan, −1 for none; arrays per output channel are as long as the panels are wide.
//
// What a step may touch is checked beside it: check_step in steps/*.cc, of the same name as its header.
#pragma once

#include <tuple>

#include "steps/elementwise.h"
#include "steps/integer_gru.h"
#include "steps/integer_lstm.h"
#include "steps/layers.h"
#include "steps/moves.h"
#include "steps/pools.h"
#include "steps/recurrent.h"
#include "steps/time_filter.h"
#include "steps/wide.h"

namespace calib8::engine {

using AllSteps =
    std::tuple<FillHalo, Copy, Quantize, Dequantize, Conv, Depthwise, MatMul, Requantize, Add, AddSums, Mul,
               Extreme, Lookup, MaxPool, AveragePool, Reduce, ArgMax, Softmax, LayerNorm, ResizeLinear,
               ResizeToFloat, Plane, Finish, WideAdd, WideMul, WideLookup, WideMaxPool, WideQuantize,
               WideDequantize, WideConv, WideDepthwise, WideFillHalo, GroupNorm, Recurrent, IntegerLstm, Div,
               TimeFilter, IntegerGru, RealRescale, RealPair, WideLength, WideLayerNorm, RealFunction>;
constexpr int kStepKinds = std::tuple_size_v<AllSteps>;

}  // namespace calib8::engine
