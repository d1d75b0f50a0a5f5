// Elementwise kernels of 16-bit codes with AVX-512.
#include "elementwise.h"
#include "words_kernels.h"

namespace calib8::engine {

void fill_words_avx512vnni(KernelTable& table) { fill_words(table); }

}  // namespace calib8::engine
