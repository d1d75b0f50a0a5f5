// What a processor can do: the one source that every choice of kernels asks.
//
// The environment variable CALIB8_CPU names the features that a process sees at most, so that the choices for
// other processors are made and run on this one. It can only take features away.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace calib8 {

using Features = uint32_t;  // a bit for each of those that kernels ask for

constexpr Features kAvx = 1U << 0, kAvx2 = 1U << 1, kPopcnt = 1U << 2, kFma = 1U << 3, kAvxVnni = 1U << 4,
                   kAvx512f = 1U << 5, kAvx512bw = 1U << 6, kAvx512dq = 1U << 7, kAvx512vl = 1U << 8,
                   kAvx512vbmi = 1U << 9, kAvx512vbmi2 = 1U << 10, kAvx512vnni = 1U << 11, kNeon = 1U << 12,
                   kDotProducts = 1U << 13, kI8mm = 1U << 14, kAmxTile = 1U << 15, kAmxInt8 = 1U << 16;

// What this processor has and its operating system keeps. Tiles belong to processes that ask for them: see
// features().
Features processor_features();

// Those of them that CALIB8_CPU names, with spaces between; all where it is not set or empty (read once, at
// first use). Where tiles are among them, Linux is asked for them then; they are not there if it refuses.
Features features();

// By the names that Linux lists in /proc/cpuinfo. Those that no kernel asks for count for nothing: the whole
// list of another machine may be given.
Features features_of(const std::vector<std::string>& names);
std::vector<std::string> names_of(Features features);

// Architecture of a processor, and on x86-64 the widest set that it has of those among which float inference
// chooses its kernels: "x86_64 avx512f", "x86_64 avx2", "x86_64 avx", "x86_64", "aarch64", "other". On x86-64
// CPUs of one such type ONNX Runtime computes the same bits; elsewhere it tells architectures apart, no more.
// ONNX Runtime sees neither CALIB8_CPU nor CALIB8_ISA: ask for processor_features().
std::string cpu_type(Features features);

}  // namespace calib8
