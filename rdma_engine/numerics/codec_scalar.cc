// Plain C++, for processors without a variant of their own.
#include "rdma_engine/numerics/kernel_templates.h"

namespace jaxina::numerics {

constinit const Kernels kScalarKernels = kernels_over<ScalarVector>();

}  // namespace jaxina::numerics
