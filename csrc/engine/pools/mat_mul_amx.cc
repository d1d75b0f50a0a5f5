// MatMul of two activations with AMX: products of tiles of 16 rows × 64 codes by 64 codes × 16 columns.
//
//   Σ (a − z_a)(b − z_b) = Σ a·b − z_b · Σ a − z_a · Σ b + depth · z_a · z_b        tdpbuud: Σ a·b
//
// A panel of 64 columns of the right matrix is packed in quads, [depth / 4][64][4], zeros behind its depth;
// rows of the left one are read where they lie.
#include <immintrin.h>

#include "mat_mul.h"
#include "tiles_amx.h"

namespace calib8::engine {
namespace {

constexpr int64_t kRowsOfTile = 16;  // rows of a tile of the left matrix, and columns of one of the right
constexpr int64_t kColumns = kAmxColumns;   // of a panel
constexpr int64_t kQuadRow = kColumns * 4;  // bytes
constexpr int64_t kRowsOfTiles = 2 * kRowsOfTile;

int64_t lesser(int64_t a, int64_t b) { return a < b ? a : b; }

// A panel of the right matrix and what belongs to it.
struct Panel {
  const MatMul& step;
  AmxMatMulScratch& scratch;
  uint8_t* packed;
  int64_t sections, section_quads, columns;

  Panel(const MatMul& matrices, const Memory& memory)
      : step(matrices),
        scratch(*reinterpret_cast<AmxMatMulScratch*>(memory.scratch)),
        packed(memory.scratch + sizeof(AmxMatMulScratch)),
        sections((matrices.depth + 63) / 64),
        section_quads((matrices.depth + 3) / 4 % sections == 0 ? (matrices.depth + 3) / 4 / sections : 16),
        columns(0) {}
};

__m512i row_of(const MatMul& step, const uint8_t* rhs, int64_t k, __mmask64 lanes) {
  return k < step.depth ? _mm512_maskz_loadu_epi8(lanes, rhs + k * step.columns) : _mm512_setzero_si512();
}

// Four rows of 64 columns as quads: 16 columns after the other.
void to_quads(const __m512i (&rows)[4], __m512i (&quads)[4]) {
  const __m512i low = _mm512_unpacklo_epi8(rows[0], rows[1]), high = _mm512_unpackhi_epi8(rows[0], rows[1]);
  const __m512i lower = _mm512_unpacklo_epi8(rows[2], rows[3]),
                upper = _mm512_unpackhi_epi8(rows[2], rows[3]);
  // Of every 16 columns four: 0 …, 4 …, 8 …, 12 …
  const __m512i a = _mm512_unpacklo_epi16(low, lower), b = _mm512_unpackhi_epi16(low, lower);
  const __m512i c = _mm512_unpacklo_epi16(high, upper), d = _mm512_unpackhi_epi16(high, upper);
  const __m512i ab_even = _mm512_shuffle_i32x4(a, b, 0x88), ab_odd = _mm512_shuffle_i32x4(a, b, 0xDD);
  const __m512i cd_even = _mm512_shuffle_i32x4(c, d, 0x88), cd_odd = _mm512_shuffle_i32x4(c, d, 0xDD);
  quads[0] = _mm512_shuffle_i32x4(ab_even, cd_even, 0x88),
  quads[1] = _mm512_shuffle_i32x4(ab_odd, cd_odd, 0x88);
  quads[2] = _mm512_shuffle_i32x4(ab_even, cd_even, 0xDD),
  quads[3] = _mm512_shuffle_i32x4(ab_odd, cd_odd, 0xDD);
}

// Packs columns, and keeps depth · z_a · z_b − z_a · Σ b of each.
void pack(Panel& panel, const uint8_t* rhs, int64_t columns) {
  const MatMul& step = panel.step;
  const __mmask64 lanes = columns == 64 ? ~__mmask64{0} : (__mmask64{1} << columns) - 1;
  const __m512i ones = _mm512_set1_epi8(1);
  panel.columns = columns;
  __m512i sums[4] = {};
  for (int64_t quad = 0; quad < panel.sections * panel.section_quads; ++quad) {
    __m512i rows[4], quads[4];
    for (int64_t i = 0; i < 4; ++i) rows[i] = row_of(step, rhs, 4 * quad + i, lanes);
    to_quads(rows, quads);
    for (int64_t i = 0; i < 4; ++i) {
      _mm512_store_si512(panel.packed + quad * kQuadRow + 64 * i, quads[i]);
      sums[i] = _mm512_dpbusd_epi32(sums[i], quads[i], ones);
    }
  }
  const auto zero = static_cast<int32_t>(step.lhs_zero);
  const auto all = static_cast<int32_t>(static_cast<uint32_t>(step.depth * step.lhs_zero * step.rhs_zero));
  for (int64_t i = 0; i < 4; ++i) {
    const __m512i term = _mm512_mullo_epi32(sums[i], _mm512_set1_epi32(-zero));
    _mm512_store_si512(panel.scratch.terms + 16 * i, _mm512_add_epi32(term, _mm512_set1_epi32(all)));
  }
}

// − z_b · Σ a of a row.
int32_t row_term(const MatMul& step, const uint8_t* row) {
  if (step.rhs_zero == 0) return 0;
  __m512i sum = _mm512_setzero_si512();
  for (int64_t k = 0; k < step.depth; k += 64) {
    const int64_t left = step.depth - k;
    const __mmask64 lanes = left >= 64 ? ~__mmask64{0} : (__mmask64{1} << left) - 1;
    const __m512i codes = _mm512_maskz_loadu_epi8(lanes, row + k);
    sum = _mm512_add_epi64(sum, _mm512_sad_epu8(codes, _mm512_setzero_si512()));
  }
  return static_cast<int32_t>(static_cast<uint32_t>(-step.rhs_zero * _mm512_reduce_add_epi64(sum)));
}

// Σ a·b of two tiles of rows and two strips of 16 columns, or of one of either.
template <bool two_tiles, bool two_strips>
void multiply(const Panel& panel, const uint8_t* first, const uint8_t* other, int64_t strip) {
  const int64_t row = panel.step.depth;
  zero_tile<0>();
  if (two_strips) zero_tile<1>();
  if (two_tiles) zero_tile<2>();
  if (two_tiles && two_strips) zero_tile<3>();
  for (int64_t s = 0; s < panel.sections; ++s) {
    const uint8_t* columns = panel.packed + s * panel.section_quads * kQuadRow + strip * 64;
    const int64_t place = s * panel.section_quads * 4;
    load_tile<6>(columns, kQuadRow);
    load_tile<4>(first + place, row);
    multiply_unsigned_tiles<0, 4, 6>();
    if (two_strips) load_tile<7>(columns + 64, kQuadRow);
    if (two_strips) multiply_unsigned_tiles<1, 4, 7>();
    if (two_tiles) load_tile<5>(other + place, row);
    if (two_tiles) multiply_unsigned_tiles<2, 5, 6>();
    if (two_tiles && two_strips) multiply_unsigned_tiles<3, 5, 7>();
  }
  int32_t* sums = panel.scratch.sums + strip * 16;
  store_tile<0>(sums, kQuadRow);
  if (two_strips) store_tile<1>(sums + 16, kQuadRow);
  if (two_tiles) store_tile<2>(sums + kRowsOfTile * kColumns, kQuadRow);
  if (two_tiles && two_strips) store_tile<3>(sums + kRowsOfTile * kColumns + 16, kQuadRow);
}

// All columns of a panel.
void multiply_rows(const Panel& panel, const uint8_t* first, const uint8_t* other) {
  const int64_t strips = (panel.columns + 15) / 16;
  for (int64_t strip = 0; strip < strips; strip += 2) {
    const bool two = strip + 1 < strips;
    if (other != nullptr) {
      (two ? multiply<true, true> : multiply<true, false>)(panel, first, other, strip);
    } else {
      (two ? multiply<false, true> : multiply<false, false>)(panel, first, first, strip);
    }
  }
}

// One row of products, with its zero points, to where it belongs.
void store_row(const Panel& panel, const Memory& memory, const uint8_t* row, int32_t* sums, int64_t place) {
  const __m512i term = _mm512_set1_epi32(row_term(panel.step, row));
  for (int64_t c = 0; c < panel.columns; c += 16) {
    const __m512i sum = _mm512_add_epi32(_mm512_load_si512(sums + c), term);
    _mm512_store_si512(sums + c, _mm512_add_epi32(sum, _mm512_load_si512(panel.scratch.terms + c)));
  }
  store_products(panel.step, memory, sums, panel.columns, place);
}

// All rows of a matrix; where fewer than 16 are left, the tile begins before them.
void run_rows(const Panel& panel, const Memory& memory, const uint8_t* lhs, int64_t place) {
  const MatMul& step = panel.step;
  for (int64_t row = 0; row < step.rows; row += kRowsOfTiles) {
    const int64_t starts[2] = {lesser(row, step.rows - kRowsOfTile),
                               lesser(row + kRowsOfTile, step.rows - kRowsOfTile)};
    const bool two = row + kRowsOfTile < step.rows;
    multiply_rows(panel, lhs + starts[0] * step.depth, two ? lhs + starts[1] * step.depth : nullptr);
    const int64_t end = lesser(row + kRowsOfTiles, step.rows);
    for (int64_t i = row; i < end; ++i) {
      const int64_t tile = (i - row) / kRowsOfTile;
      int32_t* sums = panel.scratch.sums + (tile * kRowsOfTile + i - starts[tile]) * kColumns;
      store_row(panel, memory, lhs + i * step.depth, sums, place + i * step.columns);
    }
  }
}

}  // namespace

void mat_mul_amx(const MatMul& step, const Memory& memory, Part part) {
  if (step.rows < kRowsOfTile || step.depth < 16 || step.columns < 16) return mat_mul(step, memory, part);
  const int64_t panels = (step.columns + kColumns - 1) / kColumns;
  const Range items = share(part, step.batches * panels);
  if (items.begin == items.end) return;
  Panel panel(step, memory);
  begin_tiles(TileConfig(panel.section_quads));
  for (int64_t item = items.begin; item < items.end; ++item) {
    const int64_t batch = item / panels, first = item % panels * kColumns;
    const uint8_t* lhs = memory.data<uint8_t>(step.lhs_buffer, step.lhs_offset) +
                         memory.constant<int64_t>(step.lhs_starts)[batch];
    const uint8_t* rhs = memory.data<uint8_t>(step.rhs_buffer, step.rhs_offset) +
                         memory.constant<int64_t>(step.rhs_starts)[batch] + first;
    pack(panel, rhs, lesser(step.columns - first, kColumns));
    run_rows(panel, memory, lhs, batch * step.rows * step.columns + first);
  }
  end_tiles();
}

}  // namespace calib8::engine
