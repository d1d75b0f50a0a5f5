// Whether two histograms are the same to the bit, whatever lies between their members.
#pragma once

#include <cstring>

#include "../../csrc/histogram.h"

namespace calib8_checks {

inline bool same(const calib8::Histogram& left, const calib8::Histogram& right) {
  return left.count == right.count && left.zeros == right.zeros && left.nans == right.nans &&
         left.positive_infs == right.positive_infs && left.negative_infs == right.negative_infs &&
         std::memcmp(&left.minimum, &right.minimum, sizeof left.minimum) == 0 &&
         std::memcmp(&left.maximum, &right.maximum, sizeof left.maximum) == 0 &&
         left.exponent == right.exponent && left.samples == right.samples &&
         std::memcmp(&left.minima, &right.minima, sizeof left.minima) == 0 &&
         std::memcmp(&left.maxima, &right.maxima, sizeof left.maxima) == 0 &&
         std::memcmp(left.positive, right.positive, sizeof left.positive) == 0 &&
         std::memcmp(left.negative, right.negative, sizeof left.negative) == 0;
}

}  // namespace calib8_checks
