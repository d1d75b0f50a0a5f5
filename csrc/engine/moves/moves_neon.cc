// FillHalo and Copy with NEON.
#include "moves_kernels.h"

namespace calib8::engine {

void fill_moves_neon(KernelTable& table) { fill_moves(table); }

}  // namespace calib8::engine
