// The GPU's part's side of the border.
#include "xla_ffi/gpu/gpu_part.h"

#include "xla_ffi/gpu/engine_table.h"

namespace jaxina {
namespace {

EngineTable given{};

}  // namespace

const EngineTable& engine() { return given; }

}  // namespace jaxina

extern "C" __attribute__((visibility("default"))) jaxina::GpuPart jaxina_gpu_part(const jaxina::EngineTable& engine) {
  jaxina::given = engine;
  return {&jaxina::gpu_handlers, &jaxina::set_gpu_ids, &jaxina::gpu_facts, &jaxina::gpu_link};
}
