// The natural logarithm with the same bits on every CPU: the C library has several, chosen by the machine.
#pragma once

#include <cstdint>
#include <cstring>

namespace calib8 {

// ln x for normal x > 0, its absolute error below 2^-52 · max(1, |ln x|).
//
//   x = m · 2^e,  1 ≤ m < 2,  c = the centre of the 256th of [1, 2) that holds m,  d ≈ 1/c with few bits
//   r = m · d − 1,  |r| < 2^-8
//   ln x = e ln 2 − ln d + r − r²/2 + r³/3 − r⁴/4 + r⁵/5 − r⁶/6 + r⁷/7
class NaturalLog {
 public:
  NaturalLog();

  double operator()(double x) const {
    constexpr double kLn2 = 0x1.62e42fefa39efp-1;
    constexpr uint64_t kMantissa = (uint64_t{1} << 52) - 1, kOne = uint64_t{1023} << 52;
    uint64_t bits;
    std::memcpy(&bits, &x, sizeof bits);
    const double e = static_cast<double>(static_cast<int>(bits >> 52) - 1023);
    const Entry entry = table_[bits >> 44 & 255];
    bits = (bits & kMantissa) | kOne;
    double m;
    std::memcpy(&m, &bits, sizeof m);
    const double r = m * entry.inverse - 1.0, square = r * r;
    const double high = 1.0 / 5 - r * (1.0 / 6) + square * (1.0 / 7);
    const double low = 1.0 / 3 - r * (1.0 / 4);
    const double series = r + square * (r * (low + square * high) - 0.5);
    return e * kLn2 + (entry.log + series);
  }

 private:
  struct Entry {
    double inverse;  // d
    double log;      // −ln d
  };
  Entry table_[256];
};

extern const NaturalLog natural_log;

}  // namespace calib8
