// The roof, measured: bursts of all threads, the best of which counts.
#include "peak.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace calib8::engine {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kBurstSeconds =
    1e-3;  // long against starting together, short against a turn of the scheduler
constexpr int kBursts = 40;
constexpr int64_t kFirstRounds = 1000;
constexpr int64_t kMostRounds = int64_t{1} << 40;

struct Entry {
  const char* isa;
  PeakLoop loop;
};

const Entry kLoops[] = {
#if defined(__x86_64__)
#if !defined(CALIB8_NO_AVX512VNNI) && !defined(CALIB8_NO_AMX)
    {"amx", peak_loop_amx},
#endif
#if !defined(CALIB8_NO_AVX512VNNI)
    {"avx512vnni", peak_loop_avx512vnni},
#endif
#if !defined(CALIB8_NO_AVXVNNI)
    {"avxvnni", peak_loop_avxvnni},
#endif
    {"avx2", peak_loop_avx2},
#endif
#if defined(__aarch64__)
    {"neoni8mm", peak_loop_neoni8mm},
    {"neondot", peak_loop_neondot},
    {"neon", peak_loop_neon},
#endif
    {"reference", peak_loop_reference},
};

PeakLoop loop_of(const Isa& isa) {
  for (const Entry& entry : kLoops) {
    if (std::string(entry.isa) == isa.name) return entry.loop;
  }
  throw std::invalid_argument(std::string("no loop measures ") + isa.name);
}

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Rounds that take one thread about as long as a burst.
int64_t rounds_of_a_burst(PeakLoop loop) {
  int64_t rounds = kFirstRounds;
  for (;; rounds *= 2) {
    const auto start = Clock::now();
    loop(rounds);
    if (seconds_since(start) > kBurstSeconds / 2 || rounds > kMostRounds) return rounds;
  }
}

// One burst of all threads, from the moment in which the last of them is there.
double burst(PeakLoop loop, int64_t rounds, int threads) {
  std::atomic<int> missing{threads};
  std::atomic<int64_t> macs{0};
  const auto run = [&] {
    missing.fetch_sub(1);
    while (missing.load() > 0) std::this_thread::yield();
    macs.fetch_add(loop(rounds));
  };
  std::vector<std::thread> others;
  for (int i = 1; i < threads; ++i) others.emplace_back(run);
  missing.fetch_sub(1);
  while (missing.load() > 0) std::this_thread::yield();
  const auto start = Clock::now();
  macs.fetch_add(loop(rounds));
  for (std::thread& other : others) other.join();
  return static_cast<double>(macs.load()) / seconds_since(start) * 1e-9;
}

}  // namespace

int64_t peak_loop_reference(int64_t rounds) {
  constexpr int kCodes = 768;  // as many products a round as no other loop has
  uint8_t codes[kCodes];
  int8_t weights[kCodes];
  for (int i = 0; i < kCodes; ++i) {
    codes[i] = static_cast<uint8_t>(i);
    weights[i] = static_cast<int8_t>(i * 7);
  }
  volatile int32_t sink = 0;
  for (int64_t round = 0; round < rounds; ++round) {
    codes[round % kCodes] ^= 1;  // so that no round is like the one before
    int32_t acc = 0;
    for (int i = 0; i < kCodes; ++i) acc += codes[i] * weights[i];
    sink = acc;
  }
  (void)sink;
  return rounds * kCodes;
}

double peak_gmacs(const Isa& isa, int threads) {
  const PeakLoop loop = loop_of(isa);
  const int64_t rounds = rounds_of_a_burst(loop);
  double best = 0;
  for (int i = 0; i < kBursts; ++i) best = std::max(best, burst(loop, rounds, threads));
  return best;
}

int64_t peak_products(const Isa& isa) { return loop_of(isa)(1); }

}  // namespace calib8::engine
