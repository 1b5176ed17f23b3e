// shared_callable: a Python callable that the engine's threads may copy and drop.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <utility>

namespace jaxina {

// The engine copies and destroys what it calls on its own threads, which do not hold the GIL. So copies share one
// Python reference, and the last copy takes the GIL to drop it. After the interpreter has ended the reference is
// leaked.
inline std::shared_ptr<nanobind::callable> shared_callable(nanobind::callable callable) {
  return std::shared_ptr<nanobind::callable>(new nanobind::callable(std::move(callable)), [](nanobind::callable* held) {
    if (!nanobind::is_alive()) return;
    nanobind::gil_scoped_acquire gil;
    delete held;
  });
}

}  // namespace jaxina
