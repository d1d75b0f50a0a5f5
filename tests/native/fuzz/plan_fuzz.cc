// Coverage-guided fuzzing of plans: read, decoded, checked and run through the C library (libFuzzer).
//
//   plan_fuzz CORPUS -max_total_time=60      CORPUS: plans that tests/c_library/example_plans.py writes
//
// Bytes of any kind are plans to it. What it changes by itself gets sizes and a checksum that fit nine times
// out of ten, so that what lies behind them is asked too: numbers of steps become those that other numbers
// stand beside, the text of the header gets words of its kind, constants and parts change their bytes and
// lengths.
#include <calib8.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "../../../csrc/engine/checksum.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t most);

namespace {

using Bytes = std::vector<uint8_t>;

constexpr size_t kPrefix = 64, kAlignment = 64, kChecksum = 8, kParts = 4, kTotal = 48;
constexpr size_t kMostRun = size_t{1}
                            << 22;  // bytes of a run and of its arrays; more takes long and shows nothing new
constexpr size_t kMostArrays = 64;

const char* const kWords[] = {"{",
                              "}",
                              "[",
                              "]",
                              "null",
                              "-1",
                              "0",
                              "1e308",
                              "\"\"",
                              "true",
                              "2147483648",
                              "uint8",
                              "int32",
                              "\\u0001",
                              "float32",
                              "states",
                              "steps",
                              "conv",
                              "9223372036854775807",
                              "4611686018427387904"};
constexpr int64_t kNumbers[] = {0,
                                1,
                                -1,
                                2,
                                3,
                                7,
                                8,
                                15,
                                16,
                                63,
                                64,
                                65,
                                127,
                                128,
                                255,
                                256,
                                -128,
                                32767,
                                65535,
                                65536,
                                -64,
                                1000,
                                4096,
                                1 << 20,
                                1 << 30,
                                -(1 << 30),
                                INT32_MAX,
                                INT32_MIN,
                                INT64_MAX,
                                INT64_MIN,
                                int64_t{1} << 32,
                                int64_t{1} << 40,
                                int64_t{1} << 62};

uint64_t number_at(const uint8_t* bytes) {
  uint64_t number = 0;
  for (int i = 7; i >= 0; --i) number = number << 8 | bytes[i];
  return number;
}

void put(uint8_t* bytes, uint64_t number) {
  for (int i = 0; i < 8; ++i) bytes[i] = static_cast<uint8_t>(number >> (8 * i));
}

void seal(Bytes& file) {
  calib8::engine::Checksum sum;
  sum.add(file.data(), file.size() - kChecksum);
  put(file.data() + file.size() - kChecksum, sum.value());
}

// The four parts; empty where the bytes are no file.
std::vector<Bytes> parts_of(const uint8_t* data, size_t size) {
  std::vector<Bytes> parts;
  if (size < kPrefix + kChecksum) return parts;
  size_t place = kPrefix;
  for (size_t i = 0; i < kParts; ++i) {
    const uint64_t stated = number_at(data + 16 + 8 * i);
    if (stated > size - kChecksum - place) return {};
    parts.emplace_back(data + place, data + place + stated);
    place += (stated + kAlignment - 1) / kAlignment * kAlignment;
    if (place > size - kChecksum) return {};
  }
  return parts;
}

Bytes joined(const uint8_t* prefix, const std::vector<Bytes>& parts) {
  Bytes file(prefix, prefix + kPrefix);
  for (size_t i = 0; i < kParts; ++i) {
    put(file.data() + 16 + 8 * i, parts[i].size());
    file.insert(file.end(), parts[i].begin(), parts[i].end());
    file.resize((file.size() + kAlignment - 1) / kAlignment * kAlignment);
  }
  file.resize(file.size() + kChecksum);
  put(file.data() + kTotal, file.size());
  seal(file);
  return file;
}

size_t one_of(std::minstd_rand& random, size_t count) { return count == 0 ? 0 : random() % count; }

void change_bytes(Bytes& part, size_t room, std::minstd_rand& random) {
  const size_t size = part.size();
  part.resize(size + std::min<size_t>(room, random() % 2 == 0 ? 0 : 64));
  if (!part.empty()) part.resize(LLVMFuzzerMutate(part.data(), size, part.size()));
}

void change_numbers(Bytes& part, std::minstd_rand& random) {
  const size_t count = part.size() / 8;
  for (size_t times = 1 + random() % 3; times > 0 && count > 0; --times) {
    uint8_t* const number = part.data() + 8 * one_of(random, count);
    const uint64_t old = number_at(number);
    switch (random() % 4) {
      case 0:
        put(number, static_cast<uint64_t>(kNumbers[one_of(random, std::size(kNumbers))]));
        break;
      case 1:
        put(number, old + random() % 17 - 8);
        break;
      case 2:
        put(number, number_at(part.data() + 8 * one_of(random, count)));
        break;
      default:
        put(number, random() % 2 == 0 ? old * 2 : old / 2);
    }
  }
}

void change_text(Bytes& part, std::minstd_rand& random) {
  const size_t place = one_of(random, part.size() + 1);
  const auto at = part.begin() + static_cast<std::ptrdiff_t>(place);
  if (random() % 3 == 0 && place < part.size() && part[place] >= '0' && part[place] <= '9') {
    part[place] = static_cast<uint8_t>('0' + random() % 10);
    return;
  }
  const char* const word = kWords[one_of(random, std::size(kWords))];
  const size_t gone = std::min<size_t>(random() % 8, part.size() - place);
  const auto next = part.erase(at, at + static_cast<std::ptrdiff_t>(gone));
  part.insert(next, word, word + std::strlen(word));
}

calib8_type type_of(const calib8_tensor* tensor) { return static_cast<calib8_type>(tensor->type); }

void fill(std::vector<uint8_t>& array, calib8_type type, size_t seed) {
  for (size_t i = 0; i < array.size(); ++i) array[i] = static_cast<uint8_t>(i * 37 + seed);
  if (type == CALIB8_BOOL) {
    for (uint8_t& byte : array) byte &= 1;
  }
}

// Arrays exactly as long as they have to be, so that a byte too many is seen.
void run_twice(calib8_model* model) {
  size_t total = calib8_run_bytes(model);
  const size_t inputs = calib8_input_count(model), outputs = calib8_output_count(model);
  if (inputs > kMostArrays || outputs > kMostArrays || total > kMostRun) return;
  for (size_t i = 0; i < inputs; ++i) total += std::min(calib8_input(model, i)->bytes, kMostRun);
  for (size_t i = 0; i < outputs; ++i) total += std::min(calib8_output(model, i)->bytes, kMostRun);
  if (total > kMostRun) return;
  std::vector<Bytes> given, got;
  std::vector<calib8_in> in;
  std::vector<calib8_out> out;
  for (size_t i = 0; i < inputs; ++i) {
    given.emplace_back(calib8_input(model, i)->bytes);
    fill(given.back(), type_of(calib8_input(model, i)), i);
  }
  for (size_t i = 0; i < outputs; ++i) got.emplace_back(calib8_output(model, i)->bytes);
  for (Bytes& bytes : given) in.push_back({bytes.data(), bytes.size()});
  for (Bytes& bytes : got) out.push_back({bytes.data(), bytes.size()});
  calib8_stream* stream = nullptr;
  calib8_error error;
  if (calib8_open_stream(model, &stream, &error) != CALIB8_OK) return;
  for (int time = 0; time < 2; ++time) {
    const calib8_code code = calib8_run_stream(stream, in.data(), inputs, out.data(), outputs, &error);
    if (code != CALIB8_OK && code != CALIB8_WRONG_ARRAY && code != CALIB8_BAD_ARGUMENT) {
      std::fprintf(stderr, "%s\n", error.text), std::abort();
    }
  }
  calib8_close_stream(stream);
}

// More steps than any example has: they show nothing new and take long.
bool takes_long(const uint8_t* data, size_t size) {
  const std::vector<Bytes> parts = parts_of(data, size);
  return parts.empty() ? false : parts[1].size() > 8 * 4096;
}

}  // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t most, unsigned seed) {
  std::minstd_rand random(seed);
  std::vector<Bytes> parts = parts_of(data, size);
  if (parts.empty() || random() % 10 == 0) return LLVMFuzzerMutate(data, size, most);
  const size_t room = most > size + kAlignment ? (most - size - kAlignment) / 2 : 0;
  switch (random() % 8) {
    case 0:
      change_bytes(parts[3], room, random);
      break;
    case 1:
    case 2:
      change_text(parts[0], random);
      break;
    case 3:
      change_bytes(parts[one_of(random, kParts)], room, random);
      break;
    default:
      change_numbers(parts[1], random);
  }
  const Bytes file = joined(data, parts);
  if (file.size() > most) return size;
  std::memcpy(data, file.data(), file.size());
  return file.size();
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (takes_long(data, size)) return 0;
  calib8_options options = CALIB8_OPTIONS;
  options.isa = "reference";
  options.threads = 1;
  calib8_model* model = nullptr;
  calib8_error error;
  const calib8_code code = calib8_open_memory(data, size, &options, &model, &error);
  if (code == CALIB8_INTERNAL || (code == CALIB8_OK) != (model != nullptr)) {
    std::fprintf(stderr, "%s\n", error.text), std::abort();
  }
  if (model != nullptr) run_twice(model);
  calib8_close(model);
  return 0;
}
