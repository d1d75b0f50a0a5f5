// Tiles of 32 channels that take turns, with 16-bit codes and AVX-512 VNNI.
#include "wide_flow_avx512vnni.h"

namespace calib8::engine {

const WideFlowSet& wide_flows32_avx512vnni() { return kWholeFlows<2>; }
const WideFlowSet& wide_flows24_avx512vnni() { return kPairFlows<1>; }

}  // namespace calib8::engine
