// Tiles of 48 channels that take turns, with AVX-512 VNNI.
#include "conv_few_avx512vnni.h"

namespace calib8::engine {
namespace {

constexpr FlowSet kFlows{run_shape<WholeShape<3>, true>, run_shape<PairShape<2>, false>};

}  // namespace

const FlowSet& conv_flows48_avx512vnni() { return kFlows; }

}  // namespace calib8::engine
