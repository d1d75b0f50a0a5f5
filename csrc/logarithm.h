// The natural logarithm from additions, multiplications and one division: the same bits on every machine.
//
//   x = 2^e · m,  √½ ≤ m < √2        ln x = e·ln 2 + 2·artanh(s),   s = (m − 1) / (m + 1),  |s| ≤ 0.1716
//   artanh(s) = s + s³/3 + s⁵/5 + …   up to s²¹/21; the next term is below 2^-63 of the first
//
// The libraries of two systems may differ in the last bit of their logarithms, and then so would the ranges
// that are chosen by comparing sums of them. Needs a compiler that does not contract a·b + c.
#pragma once

#include <cstdint>
#include <cstring>

namespace calib8 {

// ln x of a normal x > 0, to about one unit in the last place.
inline double natural_log(double x) {
  constexpr uint64_t kRootOfHalf = 0x3FE6A09E667F3BCDu;  // the bits of √½
  constexpr double kLn2High = 0x1.62e42fefa3800p-1;      // 42 bits: e·kLn2High is exact
  constexpr double kLn2Low = 0x1.ef35793c76730p-45;
  uint64_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  const int64_t exponent = static_cast<int64_t>(bits - kRootOfHalf) >> 52;
  bits -= static_cast<uint64_t>(exponent) << 52;
  double m;
  std::memcpy(&m, &bits, sizeof m);
  const double s = (m - 1) / (m + 1), z = s * s, zz = z * z;
  const double odd = 1.0 / 3 + zz * (1.0 / 7 + zz * (1.0 / 11 + zz * (1.0 / 15 + zz * (1.0 / 19))));
  const double even = 1.0 / 5 + zz * (1.0 / 9 + zz * (1.0 / 13 + zz * (1.0 / 17 + zz * (1.0 / 21))));
  const double e = static_cast<double>(exponent);
  return e * kLn2High + (2 * s + (2 * s * z * (odd + z * even) + e * kLn2Low));
}

}  // namespace calib8
