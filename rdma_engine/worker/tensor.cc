#include "rdma_engine/worker/tensor.h"

namespace jaxina {

std::string_view to_string(ElementType type) {
  switch (type) {
    case ElementType::kFloat32: return "float32";
    case ElementType::kInt32: return "int32";
  }
  return "unknown";
}

}  // namespace jaxina
