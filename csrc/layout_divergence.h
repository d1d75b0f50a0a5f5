// Kullback-Leibler divergences as other tools define them, one for each number of kept bins.
//
// All take counts [n] that are not all 0 and L ≥ 1 levels, and give nothing where n is too small. The
// formulas stand in calib8/calibration/ranges/entropy_*.py; sums over groups of bins become differences of
// prefix sums, so that a candidate costs O(L), but for Tengine's O(n), which has float32 sums of its own
// order. A candidate that the tool cannot evaluate is +inf.
#pragma once

#include <cstdint>
#include <vector>

namespace calib8 {

// i = L … n − 1 kept bins of magnitudes; entropy_ncnn.py and entropy_tengine.py, which drops its first bin.
std::vector<double> divergences_ncnn(const int64_t* counts, int64_t n, int64_t levels);
std::vector<double> divergences_tengine(const int64_t* counts, int64_t n, int64_t levels);

// i = L … n − 1 kept bins; entropy_smooth.py. `counts` are without the bin that it drops.
std::vector<double> divergences_smooth(const int64_t* counts, int64_t n, int64_t levels);

// i = L / 2 … n / 2 bins kept on each side of the middle one, n odd; entropy_mxnet.py.
std::vector<double> divergences_mxnet(const int64_t* counts, int64_t n, int64_t levels);

}  // namespace calib8
