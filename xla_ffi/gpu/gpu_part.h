// The border between jaxina._native and the GPU's part, a shared library that the package jaxina-cuda13 brings. Each
// side gives the other a table of functions. C++ objects pass through them, so both sides must be built from the same
// sources: jaxina/_gpu.py loads the library only if both packages have the same version.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

#include "rdma_engine/engine/engine.h"
#include "xla_ffi/gpu/gpu.h"

namespace jaxina {

// What the GPU's part uses of the engine. A process has one engine, and jaxina._native holds it.
struct EngineTable {
  void (*submit)(const Group& group, std::int64_t device, Collective collective, Engine::Completion done);
};

// What jaxina._native uses of the GPU's part: the functions of gpu.h.
struct GpuPart {
  GpuHandlers (*handlers)();
  void (*set_ids)(std::map<int, std::int64_t> id_of_ordinal);
  GpuFacts (*facts)();
  GpuLink (*link)(std::size_t bytes);
};

// The library's only exported function. It keeps the table.
inline constexpr char kGpuPartFunction[] = "jaxina_gpu_part";
using GpuPartFunction = GpuPart(const EngineTable& engine);

}  // namespace jaxina
