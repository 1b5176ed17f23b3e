// Sets words in GPU memory to zero.
#include "cuda_kernels/block_fixed_point.h"
#include "cuda_kernels/launch.h"

namespace jaxina::cuda {

Status clear(Stream stream, std::span<std::uint32_t> words) {
  return to_status(cudaMemsetAsync(words.data(), 0, words.size_bytes(), stream), "clearing words");
}

}  // namespace jaxina::cuda
