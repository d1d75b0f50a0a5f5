// Register tiles of 16 channels with AVX-512 VNNI.
#include "conv_tile_avx512vnni.h"

namespace calib8::engine {
namespace {

constexpr TileSet kTiles{
    10,
    {nullptr, run_tile<1, 1>, run_tile<2, 1>, run_tile<4, 1>, run_tile<4, 1>, run_tile<6, 1>, run_tile<6, 1>,
     run_tile<8, 1>, run_tile<8, 1>, run_tile<9, 1>, run_tile<10, 1>}};

}  // namespace

const TileSet& conv_tiles16_avx512vnni() { return kTiles; }

}  // namespace calib8::engine
