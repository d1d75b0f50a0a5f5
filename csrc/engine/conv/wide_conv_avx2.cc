// Conv with 16-bit codes for avx2: products of pairs of words, added in int32 (vpmaddwd).
#include <immintrin.h>

#define CALIB8_PRODUCTS(first, second)            \
  "vpmaddwd %%ymm12, %%ymm14, %%ymm15\n\t"        \
  "vpaddd %%ymm15, %%ymm" #first ", %%ymm" #first \
  "\n\t"                                          \
  "vpmaddwd %%ymm13, %%ymm14, %%ymm15\n\t"        \
  "vpaddd %%ymm15, %%ymm" #second ", %%ymm" #second "\n\t"

#include "kernels.h"
#include "words16_x86.h"

namespace calib8::engine {

void conv_of_bytes_avx2(const WideConv& step, const Memory& memory, Part part);

void wide_conv_avx2(const WideConv& step, const Memory& memory, Part part) {
  if (step.input_size == 1) return conv_of_bytes_avx2(step, memory, part);
  ConvTiles<Words16, int16_t>(step.layer, memory, step.output_size).run(part);
}

}  // namespace calib8::engine
