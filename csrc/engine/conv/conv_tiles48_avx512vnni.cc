// Register tiles of 48 channels with AVX-512 VNNI.
#include "conv_tile_avx512vnni.h"

namespace calib8::engine {
namespace {

constexpr TileSet kTiles{8,
                         {nullptr, run_tile<1, 3>, run_tile<2, 3>, run_tile<4, 3>, run_tile<4, 3>,
                          run_tile<6, 3>, run_tile<6, 3>, run_tile<7, 3>, run_tile<8, 3>}};

}  // namespace

const TileSet& conv_tiles48_avx512vnni() { return kTiles; }

}  // namespace calib8::engine
