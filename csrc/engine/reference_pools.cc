#include "reference.h"

namespace calib8::engine {

void reference_max_pool(const MaxPool&, const Memory&, Part) {}
void reference_average_pool(const AveragePool&, const Memory&, Part) {}
void reference_reduce(const Reduce&, const Memory&, Part) {}
void reference_arg_max(const ArgMax&, const Memory&, Part) {}
void reference_softmax(const Softmax&, const Memory&, Part) {}
void reference_resize_linear(const ResizeLinear&, const Memory&, Part) {}
void reference_mat_mul(const MatMul&, const Memory&, Part) {}

}  // namespace calib8::engine
