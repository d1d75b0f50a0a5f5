// Tiles of 48 channels that take turns, with 16-bit codes and AVX-512 VNNI.
#include "wide_flow_avx512vnni.h"

namespace calib8::engine {

const WideFlowSet& avx512vnni_wide_flows48() { return kWholeFlows<3>; }
const WideFlowSet& avx512vnni_wide_flows40() { return kPairFlows<2>; }

}  // namespace calib8::engine
