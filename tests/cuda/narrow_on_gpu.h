// Checks of what only narrow words need, on a GPU.
#pragma once

#include "cuda_kernels/block_fixed_point.h"

namespace jaxina::cuda::on_gpu {

void check_divisions(Stream stream);
void check_packed_flags(Stream stream);

}  // namespace jaxina::cuda::on_gpu
