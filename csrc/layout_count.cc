// Integer keys of float32 values, a guess of the bin, and steps to the right one.
#include "layout_count.h"

#include <algorithm>
#include <cstring>
#include <mutex>

#include "thread_pool.h"

namespace calib8 {
namespace {

constexpr int kBlock = 1024;
constexpr int64_t kSmallestPart = 65536;

int32_t bits_of(float value) {
  int32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

// Keys and guessed slots of a block.
void place(const float* values, int n, const KeyBins& bins, int32_t* keys, int32_t* guesses) {
  const double last = static_cast<double>(bins.edges.size() - 3);
  const int32_t kept = bins.magnitudes ? 0x7FFFFFFF : -1;
  const int32_t flipped = bins.magnitudes ? 0 : 0x7FFFFFFF;
  for (int i = 0; i < n; ++i) {
    const int32_t bits = bits_of(values[i]) & kept;
    keys[i] = std::min(bits ^ ((bits >> 31) & flipped), 0x7FFFFFFE);  // below the end of the last slot
    float value;
    std::memcpy(&value, &bits, sizeof value);
    double guess = static_cast<double>(value) * bins.scale + (bins.shift + 1.0);
    guess = guess > 0.0 ? guess : 0.0;  // NaN too
    guess = guess < last ? guess : last;
    guesses[i] = static_cast<int32_t>(guess);
  }
}

void count_block(const float* values, int n, const KeyBins& bins, int64_t* counts) {
  int32_t keys[kBlock], guesses[kBlock];
  place(values, n, bins, keys, guesses);
  const int32_t* const edges = bins.edges.data();
  for (int i = 0; i < n; ++i) {
    const int32_t key = keys[i];
    int32_t slot = guesses[i];
    slot += (key >= edges[slot + 1]) - (key < edges[slot]);  // nearly always enough, and no branch
    while (key < edges[slot]) --slot;
    while (key >= edges[slot + 1]) ++slot;
    ++counts[slot];
  }
}

// Counts beside the shared ones, which are then added to under a lock.
void count_part(const KeyWork& work, int64_t begin, int64_t end, std::mutex& mutex) {
  KeyCounts own(work.counts->size());
  for (int64_t at = begin; at < end; at += kBlock) {
    const int size = static_cast<int>(std::min<int64_t>(kBlock, end - at));
    count_block(work.values + at, size, *work.bins, own.data());
  }
  const std::lock_guard<std::mutex> lock(mutex);
  for (size_t i = 0; i < own.size(); ++i) (*work.counts)[i] += own[i];
}

}  // namespace

void count_keys(const std::vector<KeyWork>& work, int threads) {
  int64_t total = 0;
  for (const KeyWork& item : work) total += item.n;
  const int64_t parts = std::clamp<int64_t>(total / kSmallestPart, 1, threads);
  std::mutex mutex;
  run_parts(static_cast<int>(parts), [&](int part) {
    const int64_t begin = total / parts * part + std::min<int64_t>(part, total % parts);
    const int64_t end = begin + total / parts + (part < total % parts ? 1 : 0);
    int64_t start = 0;
    for (const KeyWork& item : work) {
      const int64_t from = std::max<int64_t>(begin - start, 0), to = std::min(end - start, item.n);
      if (from < to) count_part(item, from, to, mutex);
      start += item.n;
    }
  });
}

}  // namespace calib8
