// Linear Resize to planes of float32, kLanes columns of an output row at a time.
//
//   rows of the input as float32, plane by plane ─► the kLanes neighbours of a group of columns, one vector
//   ─► permuted to the corners of every column ─► weighed, added ─► steps of s_y ─► · s_y
//
// A step whose neighbours do not fit one vector, as where an image becomes smaller, is left to the plain
// loop.
#pragma once

#include <algorithm>
#include <utility>

#include "lanes.h"
#include "reference/reference.h"
#include "resize.h"
#include "steps.h"

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

// Of kLanes output columns: their low and high neighbours, relative to the first one, and where that is.
struct ColumnGroups {
  int64_t groups;
  int32_t *first, *low, *high;  // [groups], [groups][kLanes], [groups][kLanes]
  float* right;                 // [groups][kLanes], how far between the two
  float* weights;               // [groups][4][kLanes], those of the four corners in one row
};

// Whether all neighbours of every group lie in one vector; then `columns` has them.
bool find_neighbours(const ResizeToFloat& step, const Memory& memory, const ColumnGroups& columns) {
  const auto* low = memory.constant<int32_t>(step.column_low);
  const auto* high = memory.constant<int32_t>(step.column_high);
  const auto* fraction = memory.constant<float>(step.column_fraction);
  for (int64_t group = 0; group < columns.groups; ++group) {
    const int64_t begin = group * kLanes, count = std::min(step.columns - begin, kLanes);
    int32_t first = low[begin];
    for (int64_t i = begin; i < begin + count; ++i) first = std::min({first, low[i], high[i]});
    for (int64_t i = 0; i < kLanes; ++i) {
      const int64_t column = begin + std::min(i, count - 1);
      columns.low[begin + i] = low[column] - first;
      columns.high[begin + i] = high[column] - first;
      columns.right[begin + i] = fraction[column];
      if (low[column] - first >= kLanes || high[column] - first >= kLanes) return false;
    }
    columns.first[group] = first;
  }
  return true;
}

void weigh_columns(float down, const ColumnGroups& columns) {
  const Floats one = V::all(1.0F);
  for (int64_t group = 0; group < columns.groups; ++group) {
    const Floats right = V::numbers(columns.right + group * kLanes), left = V::subtract(one, right);
    const Floats lower = V::all(down), upper = V::subtract(one, lower);
    const Floats weights[] = {V::multiply(left, upper), V::multiply(right, upper), V::multiply(left, lower),
                              V::multiply(right, lower)};
    for (int corner = 0; corner < 4; ++corner) {
      V::store(columns.weights + (group * 4 + corner) * kLanes, V::as_ints(weights[corner]));
    }
  }
}

// Two rows of the input, [channels][stride] float32 each; what is there already stays.
class FloatRows {
 public:
  FloatRows(const ResizeToFloat& step, const uint8_t* input, float* memory)
      : step_(step), input_(input), stride_(whole_vectors(4 * step.input.columns) / 4 + kMostLanes) {
    for (float*& row : rows_) row = memory, memory += stride_ * step.input.channels;
    const auto zero = static_cast<uint64_t>(step.input_zero) + static_cast<uint64_t>(step.input_shift);
    for (uint64_t code = 0; code < 256; ++code) {
      const auto steps = static_cast<int64_t>(code - zero);
      values_[code] = static_cast<float>(steps) * static_cast<float>(step.input_scale);
    }
  }

  void move_to(int64_t image, int64_t low, int64_t high) {
    const int64_t places[] = {step_.input.at(image, low, 0), step_.input.at(image, high, 0)};
    if (places_[0] != places[0] && places_[1] == places[0]) {
      std::swap(rows_[0], rows_[1]);
      std::swap(places_[0], places_[1]);
    }
    for (int i = 0; i < 2; ++i) {
      if (places_[i] != places[i]) load(rows_[i], places[i]);
      places_[i] = places[i];
    }
  }
  const float* plane(int row, int64_t channel) const { return rows_[row] + channel * stride_; }

 private:
  void load(float* row, int64_t place) const {
    const View& in = step_.input;
    for (int64_t column = 0; column < in.columns; ++column) {
      const uint8_t* codes = input_ + place + column * in.column_stride;
      for (int64_t channel = 0; channel < in.channels; ++channel) {
        row[channel * stride_ + column] = values_[codes[channel]];
      }
    }
  }

  const ResizeToFloat& step_;
  const uint8_t* input_;
  int64_t stride_;
  float* rows_[2];
  int64_t places_[2] = {INT64_MIN, INT64_MIN};  // nothing is there yet
  float values_[256];
};

// Scratch memory: the tables of the columns, then the rows.
ColumnGroups column_groups(const ResizeToFloat& step, uint8_t* scratch) {
  const int64_t bytes = whole_vectors(4 * step.columns);
  const auto table = [&](int64_t number) { return scratch + number * bytes; };
  return {(step.columns + kLanes - 1) / kLanes, reinterpret_cast<int32_t*>(table(0)),
          reinterpret_cast<int32_t*>(table(1)), reinterpret_cast<int32_t*>(table(2)),
          reinterpret_cast<float*>(table(3)),   reinterpret_cast<float*>(table(4))};
}
static_assert(kColumnTables == 4 + 4, "first, low, high, right and four weights");

class RowToFloat {
 public:
  explicit RowToFloat(const ResizeToFloat& step) : steps_(step), scale_(all_float(step.output_scale)) {}

  void operator()(const float* upper, const float* lower, const ColumnGroups& columns, uint8_t* target,
                  int64_t count) const {
    for (int64_t group = 0; group < columns.groups; ++group) {
      const int64_t first = columns.first[group];
      const Ints low = V::load(columns.low + group * kLanes), high = V::load(columns.high + group * kLanes);
      const Ints up = V::load(upper + first), down = V::load(lower + first);
      const float* weights = columns.weights + group * 4 * kLanes;
      const auto weighed = [&](Ints row, Ints places, int corner) {
        return V::multiply(V::numbers(weights + corner * kLanes), V::bits(V::permute32(row, places)));
      };
      Floats total = V::add(weighed(up, low, 0), weighed(up, high, 1));
      total = V::add(V::add(total, weighed(down, low, 2)), weighed(down, high, 3));
      const Floats values = V::multiply(V::floats(steps_(total)), scale_);
      const int64_t rest = count - group * kLanes;
      if (rest >= kLanes) {
        V::store(target + group * kWidth, V::as_ints(values));
      } else {
        V::store_some(target + group * kWidth, V::as_ints(values), rest * 4);
      }
    }
  }

 private:
  QuotientSteps steps_;
  Floats scale_;
};

void resize_to_float(const ResizeToFloat& step, const Memory& memory, Part part) {
  const ColumnGroups columns = column_groups(step, memory.scratch);
  if (!find_neighbours(step, memory, columns)) return reference_resize_to_float(step, memory, part);
  auto* places = reinterpret_cast<float*>(memory.scratch + kColumnTables * whole_vectors(4 * step.columns));
  FloatRows rows(step, memory.data<uint8_t>(step.input), places);
  const RowToFloat row_to_float(step);
  const Range share_of_rows = share(part, step.input.images * step.rows);
  for (int64_t index = share_of_rows.begin; index < share_of_rows.end; ++index) {
    const int64_t image = index / step.rows, row = index % step.rows;
    rows.move_to(image, memory.constant<int32_t>(step.row_low)[row],
                 memory.constant<int32_t>(step.row_high)[row]);
    weigh_columns(memory.constant<float>(step.row_fraction)[row], columns);
    uint8_t* target = memory.data<uint8_t>(step.target_buffer, step.target_offset) +
                      image * step.image_stride + row * step.row_stride;
    for (int64_t channel = 0; channel < step.input.channels; ++channel, target += step.channel_stride) {
      row_to_float(rows.plane(0, channel), rows.plane(1, channel), columns, target, step.columns);
    }
  }
}

}  // namespace
}  // namespace calib8::engine
