// Compiled together with the sources of avxvnni under another name of the namespace
// (tests/native/CMakeLists.txt).
#include "evex_set.h"

#include <cstring>

#include "../../csrc/engine/kernels.h"

extern "C" void calib8_evex_kernels(void** table, size_t count) {
  calib8::engine::KernelTable kernels{};
  calib8::engine::fill_avxvnni(kernels);
  static_assert(sizeof kernels[0] == sizeof *table);
  std::memcpy(table, kernels.data(), count * sizeof *table);
}
