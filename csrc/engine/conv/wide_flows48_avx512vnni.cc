// Tiles of 48 channels that take turns, with 16-bit codes and AVX-512 VNNI.
#include "wide_flow_avx512vnni.h"

namespace calib8::engine {

const WideFlowSet& wide_flows48_avx512vnni() { return kWholeFlows<3>; }
const WideFlowSet& wide_flows40_avx512vnni() { return kPairFlows<2>; }

}  // namespace calib8::engine
