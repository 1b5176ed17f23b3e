// jaxina._native's side of the border: the functions of gpu.h call the GPU's part, once it is loaded.
#include <dlfcn.h>

#include <optional>
#include <string>
#include <utility>

#include "rdma_engine/errors.h"
#include "xla_ffi/gpu/gpu.h"
#include "xla_ffi/gpu/gpu_part.h"
#include "xla_ffi/sum_names.h"

namespace jaxina {
namespace {

constexpr char kMissing[] = "jaxina-cuda13 is not installed";

// Set while jaxina is imported, before any other thread uses it.
std::optional<GpuPart> part;

constexpr EngineTable kEngine = {
    .submit =
        [](const Group& group, std::int64_t device, Collective collective, Engine::Completion done) {
          const std::uint64_t name = collective.identity;
          Engine::instance().submit(
              group, device, std::move(collective),
              [done = std::move(done), name](const Status& status) { done(with_name(status, name)); });
        },
};

}  // namespace

void load_gpu_part(const std::string& library) {
  void* const loaded = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  void* const function = loaded == nullptr ? nullptr : dlsym(loaded, kGpuPartFunction);
  if (function == nullptr) {
    throw Error(ErrorCode::kGpu, std::string("the GPU's part of jaxina cannot be loaded: ") + dlerror());
  }
  part = reinterpret_cast<GpuPartFunction*>(function)(kEngine);
}

GpuHandlers gpu_handlers() { return part ? part->handlers() : GpuHandlers{}; }

void set_gpu_ids(std::map<int, std::int64_t> id_of_ordinal) {
  if (part) part->set_ids(std::move(id_of_ordinal));
}

GpuFacts gpu_facts() { return part ? part->facts() : GpuFacts{"not used", kMissing, "not used"}; }

GpuLink gpu_link(std::size_t bytes) {
  if (!part) throw Error(ErrorCode::kGpu, kMissing);
  return part->link(bytes);
}

}  // namespace jaxina
