// Implements gpu.h for a build without CUDA.
#include "rdma_engine/errors.h"
#include "xla_ffi/gpu/gpu.h"

namespace jaxina {

GpuHandlers gpu_handlers() { return {}; }

void set_gpu_ids(std::map<int, std::int64_t>) {}

GpuFacts gpu_facts() { return {"not used", "jaxina was built without CUDA", "not used"}; }

GpuLink gpu_link(std::size_t) { throw Error(ErrorCode::kGpu, "jaxina was built without CUDA"); }

}  // namespace jaxina
