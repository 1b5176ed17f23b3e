// Kernels in plain C++, for processors without SIMD kernels.
#include "rdma_engine/numerics/kernel_templates.h"

namespace jaxina::numerics {

constinit const Kernels kScalarKernels = kernels_over<ScalarVector>();

}  // namespace jaxina::numerics
