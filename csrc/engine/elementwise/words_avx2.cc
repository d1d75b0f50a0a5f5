// Elementwise kernels of 16-bit codes with AVX2 and FMA.
#include "elementwise.h"
#include "words_kernels.h"

namespace calib8::engine {

void fill_words_avx2(KernelTable& table) { fill_words(table); }

}  // namespace calib8::engine
