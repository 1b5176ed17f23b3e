// Loads and stores of the kernels on the GPU. A vector moves with one instruction.
#pragma once

#include <cstdint>

#include "cuda_kernels/kernel_bodies.h"

namespace jaxina::cuda {

struct DeviceMemory {
  template <std::uint32_t n, class T>
  __device__ Packed<T, n> load(const T* from) const {
    return *reinterpret_cast<const Packed<T, n>*>(from);
  }
  template <std::uint32_t n, class T>
  __device__ void store(T* to, Packed<T, n> value) const {
    *reinterpret_cast<Packed<T, n>*>(to) = value;
  }
};

}  // namespace jaxina::cuda
