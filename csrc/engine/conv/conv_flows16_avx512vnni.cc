// Tiles of 16 channels that take turns, with AVX-512 VNNI.
#include "conv_few_avx512vnni.h"

namespace calib8::engine {
namespace {

constexpr FlowSet kFlows{run_shape<WholeShape<1>, true>, nullptr};

}  // namespace

const FlowSet& conv_flows16_avx512vnni() { return kFlows; }

}  // namespace calib8::engine
