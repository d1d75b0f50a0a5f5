// Depthwise convolution as blocks of channels in bands of rows, and how parts divide them.
//
// Everything has internal linkage: each instruction set includes this file and compiles its own.
#pragma once

#include <algorithm>

#include "depthwise_dilated.h"
#include "depthwise_tables.h"
#include "scratch.h"

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

// Channels of the block that begins at `channel`: as wide as vectors go, then what is left in halves.
template <int widest>
int64_t block_width(int64_t left) {
  if (left >= widest || widest == 16) return widest;
  if (left >= widest * 3 / 4) return widest;
  return block_width<widest == 16 ? 16 : widest / 2>(left);
}

// A block of `width` channels, at most `widest`: what each architecture defines.
template <int widest>
void run_width(const Task& task, int64_t width);

// Bytes of input that one band of rows reads.
constexpr int64_t kBandBytes = 1 << 18;

// How parts divide a layer of few rows: along the blocks one after the other, each with all its pairs of
// rows.
class Division {
 public:
  Division(Part part, int64_t rows, int64_t channels)
      : part_(part), rows_(rows), pairs_((rows + 1) / 2), total_(channels * pairs_) {}
  static constexpr bool per_block = true;  // blocks have rows of their own
  // The rows of the block of `width` channels that has `before` channels in front of it.
  Range operator()(int64_t before, int64_t width) const {
    return {cut(part_.index, before, width), cut(part_.index + 1, before, width)};
  }

 private:
  int64_t cut(int64_t index, int64_t before, int64_t width) const {
    const int64_t pairs = (total_ * index / part_.count - before * pairs_ + width / 2) / width;
    const int64_t row = pairs * 2;
    return row < 0 ? 0 : row < rows_ ? row : rows_;
  }

  Part part_;
  int64_t rows_, pairs_, total_;
};

// The same rows for all blocks.
struct Band {
  static constexpr bool per_block = false;
  Range range;
  Range operator()(int64_t, int64_t) const { return range; }
};

// Who applies the table of a step: a walk over the codes behind the tiles, or, where the pixels of the output
// have gaps, the tiles in registers.
struct Table {
  const uint8_t* of_tiles = nullptr;
  bool behind = false;

  template <int widest>
  static Table of(const Depthwise& step, const Memory& memory) {
    if (step.table < 0 || step.rescale.kind == Rescale::kNone) return {};
    const bool gaps = step.output.column_stride != step.output.channels;
    if (gaps && widest == 64 && tables_in_registers()) return {memory.constant<uint8_t>(step.table), false};
    return {nullptr, true};
  }
};

// All blocks of the rows that `rows_of` gives for each; `per_block` says that tables are applied to each.
template <int widest, class RowsOf>
void run_blocks(const Depthwise& step, const Memory& memory, const Table& table, const RowsOf& rows_of) {
  const int64_t channels = step.output.channels;
  for (int64_t channel = 0; channel < channels;) {
    const int64_t width = block_width<widest>(channels - channel);
    const int64_t count = width < channels - channel ? width : channels - channel;
    const Range rows = rows_of(channel, count);
    if (rows.begin < rows.end) {
      const Task task{step, memory, channel, count, rows.begin, rows.end, 1, table.of_tiles};
      run_width<widest>(task, width);
      if (rows_of.per_block && table.behind) apply_table(task);
    }
    channel += width;
  }
}

// Where parts are cut: at every second row, as kernels take two rows together; or at any, where only that
// makes the shares even to a sixth: the layer before cuts its pixels there, and what another thread wrote
// comes from its cache. 0: neither is even.
inline int64_t rows_of_a_cut(int64_t rows, int64_t parts) {
  const int64_t pairs = (rows + 1) / 2, most = (rows + parts - 1) / parts;
  if (pairs % parts == 0 || pairs >= 8 * parts) return 2;
  return most * parts * 6 <= rows * 7 ? 1 : 0;
}

// Parts take rows, in bands whose input stays in the cache for all blocks; blocks where rows are few.
template <int widest>
void depthwise_rows(const Depthwise& step, const Memory& memory, Part part) {
  const int64_t rows = step.output.images * step.output.rows;
  const Table table = Table::of<widest>(step, memory);
  const int64_t cut = rows_of_a_cut(rows, part.count);
  if (cut == 0) {
    const Division division(part, rows, step.output.channels);
    return run_blocks<widest>(step, memory, table, division);
  }
  const Range mine = share(part, rows, cut);
  const int64_t line = std::max<int64_t>(step.row_step * step.input.row_stride, 1);
  const int64_t band = line * 4 > kBandBytes ? 4 : kBandBytes / line / 2 * 2;
  for (int64_t row = mine.begin; row < mine.end; row += band) {
    const Band rows_of{{row, row + band < mine.end ? row + band : mine.end}};
    run_blocks<widest>(step, memory, table, rows_of);
    if (!table.behind) continue;
    apply_table({step, memory, 0, step.output.channels, rows_of.range.begin, rows_of.range.end, 1, nullptr});
  }
}

template <int widest>
void depthwise(const Depthwise& step, const Memory& memory, Part part) {
  if (!falls_apart(step)) return depthwise_rows<widest>(step, memory, part);
  const int64_t rows = std::min(step.row_dilation, step.output.rows);
  const int64_t item = step.rescale.kind == Rescale::kNone ? 4 : 1;
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t column = 0; column < step.column_dilation; ++column) {
      Depthwise thin = step;
      thin.input = thinned(step.input, step, row, column, 1);
      thin.output = thinned(step.output, step, row, column, item);
      thin.row_dilation = thin.column_dilation = 1;
      depthwise_rows<widest>(thin, memory, part);
    }
  }
}

}  // namespace
}  // namespace calib8::engine
