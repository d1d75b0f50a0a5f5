// Tiles of 32 channels that take turns, with AVX-512 VNNI.
#include "conv_few_avx512vnni.h"

namespace calib8::engine {
namespace {

constexpr FlowSet kFlows{run_shape<WholeShape<2>, true>, run_shape<PairShape<1>, false>};

}  // namespace

const FlowSet& conv_flows32_avx512vnni() { return kFlows; }

}  // namespace calib8::engine
