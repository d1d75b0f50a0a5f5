// Register tiles of 32 channels with AVX-512 VNNI.
#include "conv_tile_avx512vnni.h"

namespace calib8::engine {
namespace {

constexpr TileSet kTiles{
    10,
    {nullptr, run_tile<1, 2>, run_tile<2, 2>, run_tile<4, 2>, run_tile<4, 2>, run_tile<6, 2>, run_tile<6, 2>,
     run_tile<8, 2>, run_tile<8, 2>, run_tile<9, 2>, run_tile<10, 2>}};

}  // namespace

const TileSet& conv_tiles32_avx512vnni() { return kTiles; }

}  // namespace calib8::engine
