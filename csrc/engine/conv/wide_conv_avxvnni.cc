// Conv with 16-bit codes for avxvnni: products of pairs of words, added in int32 (vpdpwssd).
#include <immintrin.h>

// On machines that have them only in the form of AVX-512 (their own tests), the same products are encoded so.
#if defined(__AVXVNNI__)
#define CALIB8_ENCODING "%{vex%} "
#else
#define CALIB8_ENCODING ""
#endif
#define CALIB8_PRODUCTS(first, second)                                             \
  CALIB8_ENCODING "vpdpwssd %%ymm12, %%ymm14, %%ymm" #first "\n\t" CALIB8_ENCODING \
                  "vpdpwssd %%ymm13, %%ymm14, %%ymm" #second "\n\t"

#include "kernels.h"
#include "words16_x86.h"

namespace calib8::engine {

void conv_of_bytes_avxvnni(const WideConv& step, const Memory& memory, Part part);

void wide_conv_avxvnni(const WideConv& step, const Memory& memory, Part part) {
  if (step.input_size == 1) return conv_of_bytes_avxvnni(step, memory, part);
  ConvTiles<Words16, int16_t>(step.layer, memory, step.output_size).run(part);
}

}  // namespace calib8::engine
