// Tiles of 64 channels that take turns, with 16-bit codes and AVX-512 VNNI.
#include "wide_flow_avx512vnni.h"

namespace calib8::engine {

const WideFlowSet& wide_flows64_avx512vnni() { return kWholeFlows<4>; }

}  // namespace calib8::engine
