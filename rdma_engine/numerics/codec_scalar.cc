// Plain C++; on any processor the compiler vectorizes it for the base instruction set.
#include "rdma_engine/numerics/kernel_templates.h"

namespace jaxina::numerics {

constinit const Kernels kScalarKernels = kernels_over<ScalarVector>();

}  // namespace jaxina::numerics
