// FillHalo and Copy with AVX2.
#include "moves_kernels.h"

namespace calib8::engine {

void fill_moves_avx2(KernelTable& table) { fill_moves(table); }

}  // namespace calib8::engine
