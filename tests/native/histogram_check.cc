// Compares every instruction set and thread count with the plain loops on random arrays, endlessly varied,
// and taps on tensors in blocks of channels with the plain loops on the same tensors without blocks.
//
//   histogram_check ROUNDS SEED      prints what it did; exit code 1 at the first difference
//
// Meant to be built with sanitizers (scripts/check-full): arrays are exactly as long as told, so that a read
// beyond them is seen.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <vector>

#include "../../csrc/accumulate.h"
#include "../../csrc/taps.h"
#include "same_histogram.h"

namespace {

using calib8::Histogram;
using Values = std::vector<float>;
using calib8_checks::same;

float special(unsigned which) {
  using limits = std::numeric_limits<float>;
  const float table[] = {0.0F,          -0.0F,         limits::infinity(),   -limits::infinity(),
                         limits::max(), limits::min(), limits::denorm_min(), -limits::denorm_min(),
                         6.0F,          std::nanf("")};
  return table[which % (sizeof table / sizeof *table)];
}

// Lengths around the widths of registers and blocks, and now and then a long one.
size_t length(std::mt19937& random) {
  const size_t edges[] = {0, 1, 7, 8, 15, 16, 17, 31, 32, 33, 63, 65, 1023, 1024, 1025, 4097, 65537};
  if (random() % 8 == 0) return random() % 200000;
  return edges[random() % (sizeof edges / sizeof *edges)] + random() % 3;
}

Values sample(std::mt19937& random) {
  Values values(length(random));
  const int scale = static_cast<int>(random() % 260) - 130;
  const unsigned zeros = random() % 4;
  const unsigned odd = random() % 3 == 0 ? 50 : 0;
  std::normal_distribution<float> normal;
  for (float& value : values) {
    value = random() % 4 < zeros ? 0.0F : std::ldexp(normal(random), scale);
    if (odd != 0 && random() % odd == 0) value = special(random());
  }
  return values;
}

std::vector<std::unique_ptr<Histogram>> expected(const std::vector<Values>& tensors) {
  std::vector<std::unique_ptr<Histogram>> states;
  for (const Values& values : tensors) {
    calib8::Counter counter;
    calib8::Extrema sample;
    calib8::count_reference(values.data(), static_cast<int64_t>(values.size()), counter, sample);
    calib8::end_sample(counter.histogram, sample);
    calib8::drain(counter);
    states.push_back(std::make_unique<Histogram>(counter.histogram));
  }
  return states;
}

bool agrees(const std::vector<Values>& tensors, const std::vector<std::unique_ptr<Histogram>>& wanted,
            const calib8::Isa& isa, int threads) {
  std::vector<std::unique_ptr<calib8::Counter>> counters;
  std::vector<calib8::Work> work;
  for (const Values& values : tensors) {
    counters.push_back(std::make_unique<calib8::Counter>());
    const auto n = static_cast<int64_t>(values.size());
    work.push_back({counters.back().get(), calib8::dense_spans(values.data(), n, 1), true});
  }
  calib8::accumulate(work, threads, isa);
  for (size_t index = 0; index < counters.size(); ++index) {
    calib8::drain(*counters[index]);
    if (same(counters[index]->histogram, *wanted[index])) continue;
    std::printf("%s with %d threads differs on tensor %zu\n", isa.name, threads, index);
    return false;
  }
  return true;
}

// Channels in blocks of 8 or 16, the padded ones filled with what must not be counted.
Values blocked(const Values& plain, int64_t images, int64_t channels, int64_t area, int64_t block) {
  const int64_t blocks = (channels + block - 1) / block;
  Values values(static_cast<size_t>(images * blocks * block * area), 1e30F);
  for (int64_t i = 0; i < static_cast<int64_t>(plain.size()); ++i) {
    const int64_t at = i % area, channel = i / area % channels, image = i / area / channels;
    const int64_t place = ((image * blocks + channel / block) * area + at) * block + channel % block;
    values[static_cast<size_t>(place)] = plain[static_cast<size_t>(i)];
  }
  return values;
}

bool taps_agree(std::mt19937& random) {
  const int64_t images = 1 + random() % 5, channels = 1 + random() % 50, area = 1 + random() % 900;
  const int64_t block = random() % 2 == 0 ? 8 : 16, padded = (channels + block - 1) / block * block;
  Values plain(static_cast<size_t>(images * channels * area));
  for (float& value : plain)
    value = random() % 5 == 0 ? special(static_cast<unsigned>(random()))
                              : std::ldexp(1.0F, static_cast<int>(random() % 9)) - 7;
  const Values values = blocked(plain, images, channels, area, block);
  const auto n = static_cast<int64_t>(plain.size());
  calib8::Counter wanted;
  calib8::accumulate({{&wanted, calib8::dense_spans(plain.data(), n, images), true}}, 1,
                     calib8::isa_by_name("reference"));
  for (const int threads : {1, 2, 3}) {
    auto state = std::make_shared<calib8::TensorAccumulator>(true);
    calib8::Taps taps({state}, threads);
    taps.begin(images, true, true);
    const auto run = [](int parts, void (*part)(void*, size_t), void* job) {
      for (int i = parts - 1; i >= 0; --i) part(job, static_cast<size_t>(i));
      return true;
    };
    const std::vector<int64_t> shape = {images, padded, area, 1};
    const bool counted = taps.record(0, values.data(), shape, {channels, block}, run);
    const bool refused = taps.record(0, values.data(), {images, padded + 1, area, 1}, {channels, block}, run);
    if (counted && !refused && same(state->settled(), wanted.histogram)) continue;
    std::printf("taps with %d threads differ: %ld images, %ld channels in blocks of %ld, area %ld\n", threads,
                static_cast<long>(images), static_cast<long>(channels), static_cast<long>(block),
                static_cast<long>(area));
    return false;
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 100;
  std::mt19937 random(argc > 2 ? static_cast<unsigned>(std::atoi(argv[2])) : 1U);
  const auto isas = calib8::available_isas(calib8::features());
  long tensors_seen = 0;
  for (int round = 0; round < rounds; ++round) {
    if (!taps_agree(random)) return 1;
    std::vector<Values> tensors(1 + random() % 4);
    for (Values& values : tensors) values = sample(random);
    const auto wanted = expected(tensors);
    tensors_seen += static_cast<long>(tensors.size());
    for (const calib8::Isa* isa : isas) {
      for (const int threads : {1, 2, 3}) {
        if (!agrees(tensors, wanted, *isa, threads)) return 1;
      }
    }
  }
  std::printf("%d rounds, %ld tensors, %zu instruction sets, 1 to 3 threads: no difference\n", rounds,
              tensors_seen, isas.size());
  return 0;
}
