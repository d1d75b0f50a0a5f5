// Registers of tiles: which hold what, in all kernels of amx.
//
//   0 … 3  sums: 16 rows × 16 int32        4, 5  16 rows of codes        6, 7  rows of weights, four by four
//
// Everything has internal linkage.
#pragma once

#include <cstdint>

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

// What ldtilecfg reads: how many bytes a row of each register has, and how many rows.
struct alignas(64) TileConfig {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};

  // Products of rows of `quads` times four codes, 1 … 16.
  explicit TileConfig(int64_t quads) {
    for (int i = 0; i < 4; ++i) rows[i] = 16, row_bytes[i] = 64;
    for (int i = 4; i < 6; ++i) rows[i] = 16, row_bytes[i] = static_cast<uint16_t>(4 * quads);
    for (int i = 6; i < 8; ++i) rows[i] = static_cast<uint8_t>(quads), row_bytes[i] = 64;
  }
};
static_assert(sizeof(TileConfig) == 64);

// As assembly: the intrinsics of gcc 12 do not say that they read memory.
inline void begin_tiles(const TileConfig& config) { asm volatile("ldtilecfg %0" : : "m"(config)); }
inline void end_tiles() { asm volatile("tilerelease"); }

template <int tile>
[[gnu::always_inline]] inline void zero_tile() {
  asm volatile("tilezero %%tmm%c0" : : "i"(tile));
}
// Rows `stride` bytes apart.
template <int tile>
[[gnu::always_inline]] inline void load_tile(const void* rows, int64_t stride) {
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(rows), "r"(stride), "i"(tile) : "memory");
}
template <int tile>
[[gnu::always_inline]] inline void store_tile(void* rows, int64_t stride) {
  asm volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(rows), "r"(stride), "i"(tile) : "memory");
}
// sums += u8 codes · s8 weights
template <int sums, int codes, int weights>
[[gnu::always_inline]] inline void multiply_tiles() {
  asm volatile("tdpbusd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(sums), "i"(codes), "i"(weights));
}
// sums += u8 codes · u8 codes
template <int sums, int codes, int others>
[[gnu::always_inline]] inline void multiply_unsigned_tiles() {
  asm volatile("tdpbuud %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(sums), "i"(codes), "i"(others));
}

}  // namespace
}  // namespace calib8::engine
