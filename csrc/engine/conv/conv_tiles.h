// Convolution in register tiles of a few pixels × 16 channels, for sets whose vectors are shorter than 64
// bytes.
//
//   for blocks of pixels, for groups:       the bytes of each window side by side: a row of cells
//     for strips of 16 channels:            acc[pixel][16] = bias
//       for sections of the depth, tiles:   acc += rows · weights
//       codes of the block                  rescale, residual, table; only channels that exist are stored
//
// One or a few pixels (fully connected layers) stream the weights once instead, whole panels at a time. Codes
// of the input and of the output have 8 or 16 bits. Where a set has two planes, the upper bytes of 16-bit
// codes are one row of cells and the lower bytes another one: acc = 256 · upper · weights + lower · weights.
// An instruction set gives the vectors (`Set`, conv_<set>.cc); everything here has internal linkage.
#pragma once

#include <cstdint>
#include <cstring>

#include "scratch.h"
#include "strip_activation.h"

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

constexpr int64_t kFewPixels = 4;  // up to so many, weights are streamed
static_assert(kStrip == kStripChannels);

// Output pixels, one after the other.
class Pixels {
 public:
  Pixels(const Conv& step, int64_t pixel)
      : step_(step),
        image_(pixel / step.output.columns / step.output.rows),
        row_(pixel / step.output.columns % step.output.rows),
        column_(pixel % step.output.columns) {}
  void next() {
    if (++column_ < step_.output.columns) return;
    column_ = 0;
    if (++row_ == step_.output.rows) row_ = 0, ++image_;
  }
  // Elements from the first pixel of an image: the input's window, the output's and the residual's pixel.
  int64_t input() const { return step_.input.at(image_, row_ * step_.row_step, column_ * step_.column_step); }
  int64_t output() const { return step_.output.at(image_, row_, column_); }
  int64_t residual() const { return step_.residual.at(image_, row_, column_); }

 private:
  const Conv& step_;
  int64_t image_, row_, column_;
};

// Where the codes of a run of pixels go, and where their residuals are: elements from the first pixel.
struct Places {
  const int64_t *output, *residual;
};

// Codes (or sums) of one strip of channels.
template <class Set>
class StripOutput {
 public:
  StripOutput(const Conv& step, const Memory& memory, const typename Set::Curve& curve, int64_t group,
              int64_t first)
      : step_(step),
        memory_(memory),
        curve_(curve),
        fixed_(step.rescale, step.activation, memory, group * step.padded_outputs + first),
        rescale_(rest_of(step.rescale), memory, group * step.padded_outputs + first),
        activation_(rest_of(step.rescale), step.activation, memory, group * step.padded_outputs + first),
        channel_(group * step.outputs + first),
        count_(step.outputs - first < kStrip ? step.outputs - first : kStrip) {}

  // acc[pixels][16].
  void store(const Places& places, int64_t pixels, const int32_t* acc) const {
    if (step_.rescale.kind == Rescale::kNone) return store_sums(places, pixels, acc);
    if (fixed_.taken()) return store_fixed(places, pixels, acc);
    const bool active = step_.activation.kind != Activation::kNone;
    if (active && step_.table < 0) return store_active(places, pixels, acc);
    const bool simple = step_.sum.kind == SumRule::kNone && step_.table < 0 && count_ == kStrip;
    if (simple && rescale_.kind == Rescale::kFloat) return store_plain(places, pixels, acc);
    for (int64_t pixel = 0; pixel < pixels; ++pixel) {
      alignas(16) uint8_t codes[kStrip];
      if (active) {
        activation_.codes(curve_, acc + pixel * kStrip, codes);
      } else if (rescale_.kind == Rescale::kFloat) {
        Set::float_codes(rescale_, acc + pixel * kStrip, codes);
      } else {
        fixed_codes(rescale_, acc + pixel * kStrip, codes);
      }
      finish(places, pixel, codes);
    }
  }

 private:
  // What the strip's own vectors do not take.
  Rescale rest_of(const Rescale& rule) const {
    return fixed_.taken() ? Rescale{Rescale::kNone, -1, -1, 0, 0, 0} : rule;
  }
  void store_fixed(const Places& places, int64_t pixels, const int32_t* acc) const {
    if (step_.sum.kind == SumRule::kNone && step_.table < 0) {
      uint8_t* output = memory_.data<uint8_t>(step_.output) + channel_;
      return fixed_.rows(curve_, acc, kStrip, pixels, {output, places.output, count_});
    }
    alignas(32) uint8_t codes[kMostPixels * kStrip];
    fixed_.rows(curve_, acc, kStrip, pixels, {codes, nullptr, kStrip});
    if (step_.sum.kind != SumRule::kNone) {
      for (int64_t i = 0; i < pixels; ++i) add_residual(places.residual[i] + channel_, codes + i * kStrip);
    }
    if (step_.table >= 0) look_up(codes, pixels);
    uint8_t* output = memory_.data<uint8_t>(step_.output) + channel_;
    for (int64_t i = 0; i < pixels; ++i) move_codes(codes + i * kStrip, count_, output + places.output[i]);
  }
  // What follows the codes of a pixel.
  void finish(const Places& places, int64_t pixel, uint8_t* codes) const {
    if (step_.sum.kind != SumRule::kNone) add_residual(places.residual[pixel] + channel_, codes);
    if (step_.table >= 0) look_up(codes, 1);
    move_codes(codes, count_, memory_.data<uint8_t>(step_.output) + places.output[pixel] + channel_);
  }
  void store_sums(const Places& places, int64_t pixels, const int32_t* acc) const {
    int32_t* output = memory_.data<int32_t>(step_.output) + channel_;
    for (int64_t pixel = 0; pixel < pixels; ++pixel) {
      std::memcpy(output + places.output[pixel], acc + pixel * kStrip,
                  static_cast<size_t>(count_) * sizeof *acc);
    }
  }
  void store_active(const Places& places, int64_t pixels, const int32_t* acc) const {
    uint8_t* output = memory_.data<uint8_t>(step_.output) + channel_;
    for (int64_t pixel = 0; pixel < pixels; pixel += 2) {
      const int64_t other = pixel + 1 < pixels ? pixel + 1 : pixel;
      alignas(16) uint8_t codes[2][kStrip];
      activation_.codes(curve_, acc + pixel * kStrip, acc + other * kStrip, codes[0], codes[1]);
      move_codes(codes[0], count_, output + places.output[pixel]);
      move_codes(codes[1], count_, output + places.output[other]);
    }
  }
  void store_plain(const Places& places, int64_t pixels, const int32_t* acc) const {
    uint8_t* output = memory_.data<uint8_t>(step_.output) + channel_;
    for (int64_t pixel = 0; pixel < pixels; ++pixel) {
      Set::float_codes(rescale_, acc + pixel * kStrip, output + places.output[pixel]);
    }
  }
  void add_residual(int64_t place, uint8_t* codes) const {
    alignas(16) uint8_t other[kStrip] = {};
    move_codes(memory_.data<const uint8_t>(step_.residual) + place, count_, other);
    if (step_.residual_right != 0) {
      Set::add(step_.sum, codes, other, codes);
    } else {
      Set::add(step_.sum, other, codes, codes);
    }
  }
  void look_up(uint8_t* codes, int64_t pixels) const {
    Set::look_up(memory_.constant<uint8_t>(step_.table), codes, pixels * kStrip);
  }

  const Conv& step_;
  const Memory& memory_;
  const typename Set::Curve& curve_;
  typename Set::Fixed fixed_;
  StripRescale rescale_;
  StripActivation<Set> activation_;
  int64_t channel_, count_;
};

// A panel's place in the packed weights, and channels before it in its group.
struct Panel {
  const int8_t* weights;
  int64_t first, width;  // width in channels

  Panel next(const Conv& step, int32_t next_width) const {
    return {weights + step.taps * step.depth * width, first + width, next_width * int64_t{kStrip}};
  }
};

template <class Set, class Item = uint8_t>
class ConvTiles {
  using Cell = typename Set::Cell;
  static_assert(sizeof(Cell) <= kCellBytes);
  static constexpr bool kPlanes = sizeof(Item) > sizeof(Cell);

 public:
  ConvTiles(const Conv& step, const Memory& memory, int64_t output_size = 1)
      : step_(step),
        memory_(memory),
        curve_(step.activation, memory),
        words_end_(step.rescale, step.activation, output_size, memory),
        output_size_(output_size),
        taps_(memory.constant<int64_t>(step.tap_offsets)),
        widths_(memory.constant<int32_t>(step.panel_widths)),
        acc_(reinterpret_cast<TileScratch*>(memory.scratch)->sums),
        section_(reinterpret_cast<uint8_t*>(reinterpret_cast<TileScratch*>(memory.scratch)->section)),
        cells_(memory.scratch + sizeof(TileScratch)),
        quads_(step.taps * step.depth / 4) {}

  void run(Part part) {
    if (!step_.rescale.fixed() || step_.sum.kind != SumRule::kNone || output_size_ != 1)
      return run_part(part);
    Set::Fixed::around([&] { run_part(part); });
  }

 private:
  // A share of the pixels with all channels, or where these are few, a share of the panels with all pixels.
  [[gnu::noinline]] void run_part(Part part) {
    const int64_t pixels = step_.output.pixels();
    const bool by_pixels = pixels >= part.count * 2 * kTileRows;
    const Range own = by_pixels ? share(part, pixels, kTileRows) : Range{0, pixels};
    const Range panels =
        by_pixels ? Range{0, step_.groups * step_.panels} : share(part, step_.groups * step_.panels);
    const int64_t block = tile_block_pixels(step_);
    for (int64_t first = own.begin; first < own.end; first += block) {
      const int64_t count = own.end - first < block ? own.end - first : block;
      find_places(first, count);
      run_block(count, panels);
    }
  }

  // Panels of all groups one after the other.
  void run_block(int64_t pixels, Range panels) {
    const int8_t* weights = memory_.constant<int8_t>(step_.weights);
    Panel panel{};
    for (int64_t index = 0; index < panels.end; ++index) {
      const int64_t group = index / step_.panels, place = index % step_.panels;
      const int32_t width = widths_[place];
      panel = place == 0 ? Panel{weights + group * step_.weight_bytes, 0, width * int64_t{kStrip}}
                         : panel.next(step_, width);
      if (index < panels.begin) continue;
      if constexpr (!kPlanes) {
        if (pixels <= kFewPixels) {
          stream_panel(pixels, group, panel);
          continue;
        }
      }
      if (place == 0 || index == panels.begin) collect_rows(pixels, group);
      for (int64_t strip = 0; strip < panel.width && panel.first + strip < step_.outputs; strip += kStrip) {
        run_strip(pixels, group, panel, strip);
      }
    }
  }

  void find_places(int64_t first, int64_t pixels) {
    Pixels place(step_, first);
    for (int64_t pixel = 0; pixel < pixels; ++pixel, place.next()) {
      inputs_[pixel] = place.input();
      outputs_[pixel] = place.output();
      residuals_[pixel] = place.residual();
    }
  }

  const Item* window(int64_t pixel, int64_t group) const {
    return memory_.data<const Item>(step_.input) + inputs_[pixel] + group * step_.group_channels;
  }

  // The cells of each pixel's window; where these are the image's bytes as they lie there, the image itself.
  void collect_rows(int64_t pixels, int64_t group) {
    for (int64_t pixel = 0; pixel < pixels; ++pixel) {
      const Item* input = window(pixel, group);
      if constexpr (Set::kDirect) {
        if (step_.taps == 1) {
          rows_[pixel] = input + taps_[0];
          continue;
        }
      }
      Cell* row = reinterpret_cast<Cell*>(cells_ + pixel * tile_row_bytes(step_));
      rows_[pixel] = row;
      for (int64_t tap = 0; tap < step_.taps; ++tap) {
        Set::take(input + taps_[tap], step_.depth, row + tap * step_.depth);
      }
      if constexpr (kPlanes) {
        row += step_.taps * step_.depth + kRowSlack / 2;
        upper_rows_[pixel] = row;
        for (int64_t tap = 0; tap < step_.taps; ++tap) {
          Set::take_upper(input + taps_[tap], step_.depth, row + tap * step_.depth);
        }
      }
    }
  }

  void run_strip(int64_t pixels, int64_t group, const Panel& panel, int64_t strip) {
    const int64_t channel = group * step_.padded_outputs + panel.first + strip;
    int32_t start[kStrip];
    Set::start(memory_.constant<int32_t>(step_.bias) + channel,
               memory_.constant<int32_t>(step_.weight_sums) + channel, start);
    if constexpr (kPlanes) {
      std::memset(acc_, 0, static_cast<size_t>(pixels) * sizeof start);
      multiply_rows(upper_rows_, pixels, panel, strip);
      for (int64_t i = 0; i < pixels * kStrip; ++i) {
        acc_[i] = static_cast<int32_t>(static_cast<uint32_t>(acc_[i]) * 256 +
                                       static_cast<uint32_t>(start[i % kStrip]));
      }
    } else {
      for (int64_t pixel = 0; pixel < pixels; ++pixel) {
        std::memcpy(acc_ + pixel * kStrip, start, sizeof start);
      }
    }
    multiply_rows(rows_, pixels, panel, strip);
    put_strip(group, panel.first + strip, {outputs_, residuals_}, pixels, acc_);
  }

  void put_strip(int64_t group, int64_t first, const Places& places, int64_t pixels, const int32_t* acc) {
    if (output_size_ == 1 || step_.rescale.kind == Rescale::kNone) {
      return StripOutput<Set>(step_, memory_, curve_, group, first).store(places, pixels, acc);
    }
    const int64_t left = step_.outputs - first, channel = group * step_.outputs + first;
    words_end_.begin(group * step_.padded_outputs + first, kStrip, left < kStrip ? left : kStrip);
    auto* output = reinterpret_cast<uint8_t*>(memory_.data<int16_t>(step_.output) + channel);
    words_end_.rows({acc, kStrip, pixels, output, places.output});
  }

  void multiply_rows(const Cell* const* cells, int64_t pixels, const Panel& panel, int64_t strip) {
    for (int64_t begin = 0; begin < quads_; begin += Set::kSection) {
      const int64_t count = quads_ - begin < Set::kSection ? quads_ - begin : Set::kSection;
      const int8_t* weights = panel.weights + begin * panel.width * 4 + strip * 4;
      const auto section = Set::section(weights, panel.width * 4, count, section_);
      multiply_block(cells, pixels, begin * 4, section, count);
    }
  }

  // Tiles of equal height, as few as can be.
  void multiply_block(const Cell* const* cells, int64_t pixels, int64_t depth,
                      const typename Set::Section& section, int64_t quads) {
    const int64_t tiles = (pixels + kTileRows - 1) / kTileRows;
    for (int64_t tile = 0; tile < tiles; ++tile) {
      const int64_t begin = pixels * tile / tiles, end = pixels * (tile + 1) / tiles;
      const Cell* rows[kTileRows];
      for (int64_t row = 0; row < end - begin; ++row) rows[row] = cells[begin + row] + depth;
      multiply(end - begin, rows, section, quads, acc_ + begin * kStrip);
    }
  }

  static void multiply(int64_t count, const Cell* const* rows, const typename Set::Section& section,
                       int64_t quads, int32_t* acc) {
    switch (count) {
      case 1:
        return Set::template multiply<1>(rows, section, quads, acc);
      case 2:
        return Set::template multiply<2>(rows, section, quads, acc);
      case 3:
        return Set::template multiply<3>(rows, section, quads, acc);
      case 4:
        return Set::template multiply<4>(rows, section, quads, acc);
      case 5:
        return Set::template multiply<5>(rows, section, quads, acc);
      default:
        return Set::template multiply<6>(rows, section, quads, acc);
    }
  }

  // All channels of a panel for a few pixels, each with its window's bytes where they lie.
  void stream_panel(int64_t pixels, int64_t group, const Panel& panel) {
    const int64_t channel = group * step_.padded_outputs + panel.first;
    for (int64_t pixel = 0; pixel < pixels; ++pixel) {
      for (int64_t strip = 0; strip < panel.width; strip += kStrip) {
        Set::start(memory_.constant<int32_t>(step_.bias) + channel + strip,
                   memory_.constant<int32_t>(step_.weight_sums) + channel + strip, acc_ + strip);
      }
      const Item* input = window(pixel, group);
      for (int64_t tap = 0; tap < step_.taps; ++tap) {
        stream(panel.width, input + taps_[tap], panel.weights + tap * step_.depth * panel.width);
      }
      const Places here{outputs_ + pixel, residuals_ + pixel};
      for (int64_t strip = 0; strip < panel.width && panel.first + strip < step_.outputs; strip += kStrip) {
        put_strip(group, panel.first + strip, here, 1, acc_ + strip);
      }
    }
  }

  void stream(int64_t width, const Item* input, const int8_t* weights) {
    switch (width / kStrip) {
      case 1:
        return Set::template stream<1>(input, weights, step_.depth / 4, acc_);
      case 2:
        return Set::template stream<2>(input, weights, step_.depth / 4, acc_);
      case 3:
        return Set::template stream<3>(input, weights, step_.depth / 4, acc_);
      default:
        return Set::template stream<4>(input, weights, step_.depth / 4, acc_);
    }
  }

  const Conv& step_;
  const Memory& memory_;
  typename Set::Curve curve_;
  typename Set::WordsEnd words_end_;
  int64_t output_size_;
  const int64_t* taps_;
  const int32_t* widths_;
  int32_t* acc_;      // [kMostPixels][16], or one panel
  uint8_t* section_;  // weights of a section, widened
  uint8_t* cells_;    // rows of a block
  int64_t quads_;     // fours of depth in a window
  const Cell* rows_[kMostPixels];
  const Cell* upper_rows_[kPlanes ? kMostPixels : 1];  // of the upper bytes; rows_ has the lower ones
  int64_t inputs_[kMostPixels], outputs_[kMostPixels], residuals_[kMostPixels];
};

}  // namespace
}  // namespace calib8::engine
