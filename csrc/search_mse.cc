// The squared error of ways to code values, from one look-up per border between two codes.
//
//   E = ∫ (v_max − x)² dH − 2·step·Σ_k G(b_k),      b_k = step·(lowest + k + ½),   k = 0 … codes − 2
//   G(b) = ∫_{−∞}^{b} H(t) dt,   H(t) = number of values ≤ t
//
// On a bin H is a line and G a parabola. Candidates go in blocks: those next to each other in a search have
// their k-th borders next to each other, so the bins of all of them are in the cache.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "search.h"

namespace calib8 {
namespace {

constexpr int64_t kBlock = 64;

// What lies below a point of a bin: `below` values are below the bin, `area` is the integral of their number
// up to it, `half` is half the count of the bin.
struct Bin {
  double area, below, half;
};

// Moments about the point 0.
struct Moments {
  double total, first, second;
};

// G at points of [0, end), in bins from the lower end of the histogram.
inline double integral(const Bin* bins, double point) {
  const int64_t index = static_cast<int64_t>(point);
  const double within = point - static_cast<double>(index);
  const Bin& bin = bins[index];
  return bin.area + within * (bin.below + within * bin.half);
}

class SquaredErrors {
 public:
  SquaredErrors(const int64_t* counts, int64_t bins, int64_t origin)
      : bins_(bins + 1),
        moments_{0, 0, 0},
        origin_(static_cast<double>(origin)),
        end_(static_cast<double>(bins)) {
    double area = 0;
    for (int64_t k = 0; k < bins; ++k) {
      const double count = static_cast<double>(counts[k]);
      const double centre = static_cast<double>(k - origin) + 0.5;
      bins_[k] = {area, moments_.total, count / 2};
      area += moments_.total + count / 2;
      moments_.total += count;
      moments_.first += count * centre;
      moments_.second += count * (centre * centre + 1.0 / 12);
    }
    bins_[bins] = {area, moments_.total, 0};
  }

  // Errors of up to kBlock candidates.
  void block(const double* steps, const int64_t* lowest, int64_t candidates, int64_t codes,
             double* errors) const {
    double first[kBlock], sums[kBlock] = {};
    bool inside = true;
    for (int64_t i = 0; i < candidates; ++i) {
      first[i] = static_cast<double>(lowest[i]) + 0.5;
      inside &= border(steps[i], first[i]) >= 0;
      inside &= border(steps[i], first[i] + static_cast<double>(codes - 2)) < end_;
    }
    inside ? add_inside(steps, first, candidates, codes, sums)
           : add_any(steps, first, candidates, codes, sums);
    for (int64_t i = 0; i < candidates; ++i) {
      const double largest = steps[i] * static_cast<double>(lowest[i] + codes - 1);
      const double from_top =
          moments_.second - 2 * largest * moments_.first + largest * largest * moments_.total;
      errors[i] = from_top - 2 * steps[i] * sums[i];
    }
  }

 private:
  double border(double step, double code) const { return step * code + origin_; }

  void add_inside(const double* steps, const double* first, int64_t candidates, int64_t codes,
                  double* sums) const {
    const Bin* const bins = bins_.data();
    for (int64_t k = 0; k < codes - 1; ++k) {
      const double code = static_cast<double>(k);
      for (int64_t i = 0; i < candidates; ++i) sums[i] += integral(bins, border(steps[i], first[i] + code));
    }
  }

  // Below the histogram G is 0; above it every value adds its distance.
  void add_any(const double* steps, const double* first, int64_t candidates, int64_t codes,
               double* sums) const {
    const Bin* const bins = bins_.data();
    for (int64_t k = 0; k < codes - 1; ++k) {
      const double code = static_cast<double>(k);
      for (int64_t i = 0; i < candidates; ++i) {
        const double point = std::max(border(steps[i], first[i] + code), 0.0);
        const double nearest = std::min(point, end_);
        sums[i] += integral(bins, nearest) + moments_.total * (point - nearest);
      }
    }
  }

  std::vector<Bin> bins_;  // the last one is beyond the histogram, for its upper end
  Moments moments_;
  double origin_, end_;
};

}  // namespace

void squared_errors(const int64_t* counts, int64_t bins, int64_t origin, const Candidates& candidates,
                    double* errors) {
  const SquaredErrors search(counts, bins, origin);
  for (int64_t i = 0; i < candidates.size; i += kBlock) {
    const int64_t size = std::min(kBlock, candidates.size - i);
    search.block(candidates.steps + i, candidates.lowest + i, size, candidates.codes, errors + i);
  }
}

}  // namespace calib8
