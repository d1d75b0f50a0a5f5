// Factors, rounding in turn and descent, in blocks whose inner products the instruction sets compute.
#include "second_order.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "dispatch.h"
#include "thread_pool.h"

namespace calib8 {
namespace {

constexpr int64_t kBlock = 64;          // columns that are eliminated or rounded together
constexpr int64_t kRowBlock = 32;       // rows that one thread takes at a time
constexpr double kNothingLeft = 1e-13;  // of a diagonal entry: what rounding alone leaves of it

int64_t blocks_of(int64_t n, int64_t size) { return (n + size - 1) / size; }

// Calls work(0) … work(pieces − 1) on up to `threads` threads.
template <typename Work>
void in_pieces(int64_t pieces, int threads, const Work& work) {
  const int parts = static_cast<int>(std::clamp<int64_t>(pieces, 1, threads));
  run_parts(parts, [&](int part) {
    for (int64_t piece = part; piece < pieces; piece += parts) work(piece);
  });
}

// One row block of one group.
struct Piece {
  int64_t group, first, rows;
};

template <typename Work>
void in_row_blocks(const Rows& shape, int threads, const Work& work) {
  const int64_t blocks = blocks_of(shape.rows, kRowBlock);
  in_pieces(shape.groups * blocks, threads, [&](int64_t index) {
    const int64_t first = index % blocks * kRowBlock;
    work(Piece{index / blocks, first, std::min(kRowBlock, shape.rows - first)});
  });
}

// Eliminates columns first … last − 1 in rows first … size − 1, within these columns.
void factor_panel(double* h, int64_t size, int64_t first, int64_t last, const double* diagonal) {
  for (int64_t k = first; k < last; ++k) {
    const double pivot = h[k * size + k];
    const bool sound = pivot > kNothingLeft * diagonal[k];
    for (int64_t i = k + 1; i < size; ++i) {
      double* const row = h + i * size;
      const double entry = row[k];
      row[k] = sound ? entry / pivot : 0.0;
      if (!sound) continue;
      const int64_t end = std::min(i + 1, last);
      for (int64_t j = k + 1; j < end; ++j) row[j] -= h[j * size + k] * pivot * row[k];
    }
  }
}

// What the columns first … last − 1 leave of the columns behind them, below and on the diagonal.
void factor_rest(double* h, int64_t size, int64_t first, int64_t last, int threads, const Isa& isa) {
  const int64_t width = last - first, left = size - last;
  std::vector<double> turned(static_cast<size_t>(width * left));  // D L_iᵀ, [width, left]
  for (int64_t i = 0; i < left; ++i) {
    for (int64_t k = 0; k < width; ++k) {
      turned[k * left + i] = h[(last + i) * size + first + k] * h[(first + k) * size + first + k];
    }
  }
  const int64_t pieces = blocks_of(left, kRowBlock);
  in_pieces(pieces, threads, [&](int64_t index) {
    const int64_t row = (pieces - 1 - index) * kRowBlock;  // the longest rows first
    const int64_t rows = std::min(kRowBlock, left - row);
    isa.subtract_product({h + (last + row) * size + last, size}, {h + (last + row) * size + first, size},
                         {turned.data(), left}, rows, std::min(row + rows, left), width);
  });
}

void factor_one(double* h, int64_t size, int threads, const Isa& isa) {
  std::vector<double> diagonal(static_cast<size_t>(size));
  for (int64_t k = 0; k < size; ++k) diagonal[k] = h[k * size + k];
  for (int64_t first = 0; first < size; first += kBlock) {
    const int64_t last = std::min(first + kBlock, size);
    factor_panel(h, size, first, last, diagonal.data());
    if (last < size) factor_rest(h, size, first, last, threads, isa);
  }
}

double nearest_code(double value, double scale, int limit) {
  return std::clamp(std::nearbyint(value / scale), -static_cast<double>(limit), static_cast<double>(limit));
}

// Rounds one row in columns first … last − 1. `targets` are its weights less the errors carried so far.
void round_block(const double* weights, double* targets, double* errors, double scale, const double* factors,
                 int64_t size, int64_t first, int64_t last, int limit, int8_t* codes) {
  for (int64_t k = last - 1; k >= first; --k) {
    const double code = nearest_code(targets[k], scale, limit);
    const double error = scale * code - weights[k];
    codes[k] = static_cast<int8_t>(code);
    errors[k] = error;
    for (int64_t j = first; j < k; ++j) targets[j] -= error * factors[k * size + j];
  }
}

// Changes the codes of one row; `slopes` is e H.
void descend_row(const double* products, double* slopes, double scale, int64_t size, int limit, int sweeps,
                 int8_t* codes) {
  for (int sweep = 0; sweep < sweeps; ++sweep) {
    bool moved = false;
    for (int64_t k = 0; k < size; ++k) {
      const double curvature = products[k * size + k];
      if (!(curvature > 0)) continue;
      const double old = codes[k];
      const double step = nearest_code(old - slopes[k] / (curvature * scale), 1.0, limit) - old;
      if (step == 0) continue;
      moved = true;
      codes[k] = static_cast<int8_t>(old + step);
      const double change = scale * step;
      for (int64_t j = 0; j < size; ++j) slopes[j] += change * products[k * size + j];
    }
    if (!moved) return;
  }
}

}  // namespace

void factor(double* products, int64_t groups, int64_t size, int threads) {
  const Isa& isa = active_isa();
  const DefaultRounding rounding;
  if (groups == 1) {
    factor_one(products, size, threads, isa);
    return;
  }
  in_pieces(groups, threads, [&](int64_t group) {
    const DefaultRounding own;
    factor_one(products + group * size * size, size, 1, isa);
  });
}

void round_in_turn(const Rows& shape, const double* weights, const double* scales, const double* factors,
                   int limit, int8_t* codes, int threads) {
  const Isa& isa = active_isa();
  const int64_t size = shape.size;
  in_row_blocks(shape, threads, [&](const Piece& piece) {
    const DefaultRounding own;
    const int64_t row = piece.group * shape.rows + piece.first;
    const double* const given = weights + row * size;
    const double* const lower = factors + piece.group * size * size;
    std::vector<double> targets(given, given + piece.rows * size), errors(targets.size());
    for (int64_t last = size; last > 0; last = (last - 1) / kBlock * kBlock) {
      const int64_t first = (last - 1) / kBlock * kBlock;
      for (int64_t i = 0; i < piece.rows; ++i) {
        round_block(given + i * size, targets.data() + i * size, errors.data() + i * size, scales[row + i],
                    lower, size, first, last, limit, codes + (row + i) * size);
      }
      isa.subtract_product({targets.data(), size}, {errors.data() + first, size},
                           {lower + first * size, size}, piece.rows, first, last - first);
    }
  });
}

void descend(const Rows& shape, const double* weights, const double* scales, const double* products,
             int limit, int sweeps, int8_t* codes, int threads) {
  const Isa& isa = active_isa();
  const int64_t size = shape.size;
  in_row_blocks(shape, threads, [&](const Piece& piece) {
    const DefaultRounding own;
    const int64_t row = piece.group * shape.rows + piece.first;
    const double* const h = products + piece.group * size * size;
    std::vector<double> less(static_cast<size_t>(piece.rows * size)), slopes(less.size());
    for (int64_t i = 0; i < piece.rows; ++i) {
      for (int64_t k = 0; k < size; ++k) {
        const int64_t at = (row + i) * size + k;
        less[i * size + k] = weights[at] - scales[row + i] * codes[at];
      }
    }
    isa.subtract_product({slopes.data(), size}, {less.data(), size}, {h, size}, piece.rows, size, size);
    for (int64_t i = 0; i < piece.rows; ++i) {
      descend_row(h, slopes.data() + i * size, scales[row + i], size, limit, sweeps,
                  codes + (row + i) * size);
    }
  });
}

void multiply(const Rows& shape, int64_t columns, const double* rows, const double* matrix, double* result,
              int threads) {
  const Isa& isa = active_isa();
  const int64_t size = shape.size;
  in_row_blocks(shape, threads, [&](const Piece& piece) {
    const DefaultRounding own;
    const int64_t row = piece.group * shape.rows + piece.first;
    std::vector<double> less(static_cast<size_t>(piece.rows * size));
    for (size_t i = 0; i < less.size(); ++i) less[i] = -rows[row * size + static_cast<int64_t>(i)];
    std::fill_n(result + row * columns, piece.rows * columns, 0.0);
    isa.subtract_product({result + row * columns, columns}, {less.data(), size},
                         {matrix + piece.group * size * columns, columns}, piece.rows, columns, size);
  });
}

}  // namespace calib8
