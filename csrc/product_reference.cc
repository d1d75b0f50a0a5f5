// Products of matrices for any CPU.
#include "product_tile.h"

namespace calib8 {

void subtract_product_reference(Matrix c, ConstMatrix a, ConstMatrix b, int64_t rows, int64_t columns,
                                int64_t inner) {
  subtract_in_tiles(c, a, b, rows, columns, inner);
}

}  // namespace calib8
