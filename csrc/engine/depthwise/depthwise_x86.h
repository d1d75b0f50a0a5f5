// Depthwise convolution on x86: blocks of 64, 32 or 16 channels, taps four by four.
//
// The codes of four taps are interleaved, so that one dot product adds four products to the sum of each
// channel; the weights are interleaved by the same instructions. Everything has internal linkage: each
// instruction set includes this file and compiles its own.
#pragma once

#include <algorithm>
#include <cstring>

#include "depthwise_activation_x86.h"
#include "depthwise_dilated.h"
#include "depthwise_five_x86.h"
#include "depthwise_one_x86.h"
#include "depthwise_three_x86.h"
#include "lookup.h"
#include "scratch.h"

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

// Bias and weights of one block in the order of the quarters.
template <class L>
struct Layer {
  using Ints = typename L::Ints;
  static_assert(sizeof(Quarters<Weights<L>>) <= kQuadBytes, "more than its scratch memory");

  explicit Layer(const Task& task) : weights(reinterpret_cast<Quarters<Weights<L>>*>(task.memory.scratch)) {
    const Depthwise& step = task.step;
    const uint8_t* first = task.memory.constant<uint8_t>(step.bias) + task.channel * 4;
    for (int i = 0; i < 4; ++i) bias[i] = L::words(first, i);
    const uint8_t* taps = task.memory.constant<uint8_t>(step.weights) + task.channel;
    const int64_t tap = step.padded_outputs;
    for (int64_t t = 0; t < step.taps; t += 4, taps += 4 * tap) {
      weights[t / 4] = interleave<L, Weights<L>>(L::bytes(taps), L::bytes(taps + tap),
                                                 L::bytes(taps + 2 * tap), L::bytes(taps + 3 * tap));
    }
  }

  Ints bias[4];
  Quarters<Weights<L>>* weights;  // [taps / 4], in the scratch memory
};

// Codes of one tap where every input channel serves one output channel.
template <class L>
struct Direct {
  explicit Direct(const Task& task) : apart(task.input_apart()) {}
  typename L::Ints operator()(const uint8_t* from) const { return L::codes(from, apart); }
  int64_t apart;
};

// Where an input channel serves several output channels: each lane repeats bytes of its own 16.
template <class L>
struct Repeated {
  explicit Repeated(const Task& task)
      : places(L::load(task.memory.constant<uint8_t>(task.step.repeats) + task.channel)) {
    for (int l = 0; l < L::kChannels / 16; ++l) {
      first[l] = (task.channel + 16 * l) / task.step.multiplier - task.channel / task.step.multiplier;
    }
  }
  typename L::Ints operator()(const uint8_t* from) const {
    const uint8_t* lanes[L::kChannels / 16];
    for (int l = 0; l < L::kChannels / 16; ++l) lanes[l] = from + first[l];
    return L::shuffle8(L::lanes(lanes), places);
  }
  typename L::Ints places;
  int64_t first[L::kChannels / 16];
};

// Sums of one output pixel: any kernel, stride and dilation.
template <class L, class Load>
[[gnu::always_inline]] inline void add_window(const Depthwise& step, const int64_t* taps,
                                              const Layer<L>& layer, const Load& load, const uint8_t* input,
                                              typename L::Ints (&acc)[4]) {
  for (int i = 0; i < 4; ++i) acc[i] = layer.bias[i];
  for (int64_t t = 0; t < step.taps; t += 4) {
    const Quarters<Codes<L>> codes =
        interleave<L, Codes<L>>(load(input + taps[t]), load(input + taps[t + 1]), load(input + taps[t + 2]),
                                load(input + taps[t + 3]));
    for (int i = 0; i < 4; ++i) acc[i] = dot<L>(acc[i], codes.of[i], layer.weights[t / 4].of[i]);
  }
}

template <class L, class Load, Rounding kind>
void any_window(const Task& task) {
  const Depthwise& step = task.step;
  const int64_t* taps = task.memory.constant<int64_t>(step.tap_offsets);
  const Layer<L> layer(task);
  const Load load(task);
  const CodesOfSums<L, kind> codes_of(step, task.memory, task.channel);
  const int64_t columns = task.columns(), apart = task.output_apart();
  for (int64_t row = task.begin; row < task.end; ++row) {
    const uint8_t* input = task.input(row);
    uint8_t* output = task.output(row);
    for (int64_t column = 0; column < columns; ++column) {
      typename L::Ints acc[4];
      add_window<L>(step, taps, layer, load, input, acc);
      const auto codes = through_table(task.table, codes_of(acc[0], acc[1], acc[2], acc[3]));
      L::put(output, codes, task.channels, apart);
      input += step.column_step * step.input.column_stride;
      output += step.output.column_stride;
    }
  }
}

// Sums that are stored as they are, and what the forms in registers do not take.
template <class L, class Load>
void any_rule(const Task& task) {
  const Depthwise& step = task.step;
  const int64_t* taps = task.memory.constant<int64_t>(step.tap_offsets);
  const Layer<L> layer(task);
  const Load load(task);
  const AnyRule<L> rule(task);
  const bool whole = step.rescale.kind == Rescale::kNone;
  for (int64_t row = task.begin; row < task.end; ++row) {
    const uint8_t* input = task.input(row);
    int64_t place = task.place(row);
    for (int64_t column = 0; column < step.output.columns; ++column) {
      typename L::Ints acc[4];
      add_window<L>(step, taps, layer, load, input, acc);
      alignas(64) int32_t sums[L::kChannels];
      const bool straight = whole && task.channels == L::kChannels;
      int32_t* to = straight ? task.memory.data<int32_t>(step.output) + place : sums;
      for (int l = 0; l < L::kChannels / 16; ++l) {
        for (int i = 0; i < 4; ++i) Lanes<16>::store(to + 16 * l + 4 * i, L::lane(acc[i], l));
      }
      if (!whole) {
        rule.store(sums, task.memory.data<uint8_t>(step.output) + place);
      } else if (!straight) {
        std::memcpy(task.memory.data<int32_t>(step.output) + place, sums,
                    static_cast<size_t>(task.channels) * sizeof *sums);
      }
      input += step.column_step * step.input.column_stride;
      place += step.output.column_stride;
    }
  }
}

// codes[i] = table[codes[i]], nothing else written.
void look_up_line(const uint8_t* table, uint8_t* codes, int64_t count) {
  constexpr int64_t kLine = 64, kFew = 24;
  const int64_t whole = count / kLine * kLine, rest = count - whole;
  if (whole > 0) look_up(table, codes, codes, whole);
  if (rest < kFew) {
    for (int64_t i = whole; i < count; ++i) codes[i] = table[codes[i]];
    return;
  }
  alignas(64) uint8_t last[kLine] = {};
  std::memcpy(last, codes + whole, static_cast<size_t>(rest));
  look_up(table, last, last, kLine);
  std::memcpy(codes + whole, last, static_cast<size_t>(rest));
}

// A fused table, applied to codes that were just written: whole rows where pixels follow each other.
void apply_table(const Task& task) {
  const uint8_t* table = task.memory.constant<uint8_t>(task.step.table);
  const int64_t columns = task.step.output.columns, next = task.step.output.column_stride;
  const bool dense = task.channels == next;
  for (int64_t row = task.begin; row < task.end; ++row) {
    uint8_t* codes = task.output(row);
    if (dense) {
      look_up_line(table, codes, columns * next);
      continue;
    }
    for (int64_t column = 0; column < columns; ++column) {
      look_up_line(table, codes + column * next, task.channels);
    }
  }
}

// Blocks as wide as vectors go, or with several strips of a row in a vector.
template <class L, Rounding kind>
void one_filter(const Task& task) {
  const Depthwise& step = task.step;
  const bool unit = step.row_step == 1 && step.column_step == 1;
  const bool plain = step.layers == 1 && step.row_dilation == 1 && step.column_dilation == 1;
  if (plain && step.kernel_rows == 3 && step.kernel_columns == 3) {
    if (unit) return ThreeByThree<L, kind, 1>(task).run();
    if (step.column_step == 2) return ThreeByThree<L, kind, 2>(task).run();
  }
  if (plain && unit && step.kernel_rows == 5 && step.kernel_columns == 5) {
    return FiveByFive<L, kind>(task).run();
  }
  if (step.layers == 1 && step.kernel_rows == 1 && step.kernel_columns == 1) return one_by_one<L, kind>(task);
  any_window<L, Direct<L>, kind>(task);
}

template <int widest, int width, Rounding kind>
void narrow_rule(Task task) {
  using Plain = Block<width, width>;
  using Strips = Block<widest, width>;
  if (task.step.multiplier != 1) return any_window<Plain, Repeated<Plain>, kind>(task);
  if (task.step.output.columns < Strips::kStrips) return any_window<Plain, Direct<Plain>, kind>(task);
  task.strips = Strips::kStrips;
  one_filter<Strips, kind>(task);
}

template <int widest, int width, Rounding kind>
[[gnu::noinline]] void split_rule(const Task& task) {
  narrow_rule<widest, width, kind>(task);
}

// Whether the curve of a layer is all that its codes depend on.
bool is_whole(const Task& task) {
  return task.step.rescale.low == 0 && task.step.rescale.high == 255 &&
         CurveTable::is_whole(task.step.activation);
}

// Codes of a Relu, as most are.
bool is_from_zero(const Rescale& rule) { return rule.zero_point == 0 && rule.low == 0 && rule.high == 255; }

template <int widest, int width>
void run_float(const Task& task) {
  switch (task.step.activation.kind) {
    case Activation::kTwoSided:
      return narrow_rule<widest, width, Rounding::kTwoSided>(task);
    case Activation::kCurve:
      return is_whole(task) ? narrow_rule<widest, width, Rounding::kWholeCurve>(task)
                            : narrow_rule<widest, width, Rounding::kCurve>(task);
    default:
      return is_from_zero(task.step.rescale) ? narrow_rule<widest, width, Rounding::kFromZero>(task)
                                             : narrow_rule<widest, width, Rounding::kFloat>(task);
  }
}

template <int widest, int width>
void run_split(const Task& task) {
  switch (task.step.activation.kind) {
    case Activation::kTwoSided:
      return split_rule<widest, width, Rounding::kSplitSides>(task);
    case Activation::kCurve:
      return is_whole(task) ? split_rule<widest, width, Rounding::kSplitWholeCurve>(task)
                            : split_rule<widest, width, Rounding::kSplitCurve>(task);
    default:
      return nudge_has_sign(task.step.rescale) ? split_rule<widest, width, Rounding::kSplitSigned>(task)
                                               : split_rule<widest, width, Rounding::kSplit>(task);
  }
}

// Sums that no form in registers takes; a table that the tiles would apply is applied behind them.
template <int width>
void run_any_rule(const Task& task) {
  using Plain = Block<width, width>;
  if (task.step.multiplier == 1) {
    any_rule<Plain, Direct<Plain>>(task);
  } else {
    any_rule<Plain, Repeated<Plain>>(task);
  }
  if (task.table != nullptr) apply_table(task);
}

template <int widest, int width>
void run_block(const Task& task) {
  const Rescale& rule = task.step.rescale;
  const bool narrow = task.step.narrow != 0, curve = task.step.activation.kind == Activation::kCurve;
  if (narrow && rule.kind == Rescale::kFloat) return run_float<widest, width>(task);
  if (narrow && rule.kind != Rescale::kAway) {
    const SplitLayer split({rule, task.step.activation, task.memory, task.channel}, width,
                           curve ? SplitUse::kSteps : SplitUse::kCodes);
    if (split.fits) return rounded_down([&] { run_split<widest, width>(task); });
  }
  run_any_rule<width>(task);
}

// Channels of the block that begins at `channel`: as wide as vectors go, then what is left in halves.
template <int widest>
int64_t block_width(int64_t left) {
  if (left >= widest || widest == 16) return widest;
  if (left >= widest * 3 / 4) return widest;
  return block_width<widest == 16 ? 16 : widest / 2>(left);
}

template <int widest, int width = widest>
void run_width(const Task& task, int64_t wanted) {
  if constexpr (width > 16) {
    if (wanted < width) return run_width<widest, width / 2>(task, wanted);
  }
  run_block<widest, width>(task);
}

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
