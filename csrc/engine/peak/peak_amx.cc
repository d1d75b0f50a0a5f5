// The roof of amx: sums of sixty-four products in tiles of 16 × 16.
#include "peak.h"
#include "tiles_amx.h"

namespace calib8::engine {

int64_t peak_loop_amx(int64_t rounds) {
  alignas(64) static const uint8_t codes[1024] = {};
  begin_tiles(TileConfig(16));
  zero_tile<0>();
  zero_tile<1>();
  zero_tile<2>();
  zero_tile<3>();
  load_tile<4>(codes, 64);
  load_tile<6>(codes, 64);
  for (int64_t round = 0; round < rounds; ++round) {
    multiply_tiles<0, 4, 6>();
    multiply_tiles<1, 4, 6>();
    multiply_tiles<2, 4, 6>();
    multiply_tiles<3, 4, 6>();
  }
  end_tiles();
  return 4 * 16 * 16 * 64 * rounds;
}

}  // namespace calib8::engine
