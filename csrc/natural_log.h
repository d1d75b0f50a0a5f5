// The natural logarithm with the same bits on every CPU: the C library has several, chosen by the machine.
#pragma once

#include <cstdint>
#include <cstring>

namespace calib8 {

// ln x for normal x > 0, within 2 units in the last place.
//
//   x = m · 2^e,  √½ ≤ m < √2,  s = (m − 1) / (m + 1)
//   ln x = e ln 2 + 2 (s + s³/3 + s⁵/5 + …)               |s| < 0.172: 11 terms suffice
static inline double natural_log(double x) {
  constexpr double kLn2High = 0x1.62e42fefa38p-1, kLn2Low = 0x1.ef35793c7673p-45;
  constexpr int64_t kRootHalf = 0x3FE6A09E667F3BCD;
  int64_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  const int64_t exponent = (bits - kRootHalf) >> 52;
  bits -= static_cast<int64_t>(static_cast<uint64_t>(exponent) << 52);
  double m;
  std::memcpy(&m, &bits, sizeof m);
  const double s = (m - 1.0) / (m + 1.0), z = s * s;
  double sum = 1.0 / 23;
  sum = sum * z + 1.0 / 21;
  sum = sum * z + 1.0 / 19;
  sum = sum * z + 1.0 / 17;
  sum = sum * z + 1.0 / 15;
  sum = sum * z + 1.0 / 13;
  sum = sum * z + 1.0 / 11;
  sum = sum * z + 1.0 / 9;
  sum = sum * z + 1.0 / 7;
  sum = sum * z + 1.0 / 5;
  sum = sum * z + 1.0 / 3;
  const double e = static_cast<double>(exponent);
  return e * kLn2High + (2.0 * s + (2.0 * s * z * sum + e * kLn2Low));
}

}  // namespace calib8
