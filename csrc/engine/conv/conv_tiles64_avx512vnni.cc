// Register tiles of 64 channels with AVX-512 VNNI.
#include "conv_tile_avx512vnni.h"

namespace calib8::engine {
namespace {

constexpr TileSet kTiles{6,
                         {nullptr, run_tile<1, 4>, run_tile<2, 4>, run_tile<3, 4>, run_tile<4, 4>,
                          run_tile<5, 4>, run_tile<6, 4>}};

}  // namespace

const TileSet& conv_tiles64_avx512vnni() { return kTiles; }

}  // namespace calib8::engine
