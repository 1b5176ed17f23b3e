// Describes the GPUs of this machine for `jaxina info`, and measures the link to GPU 0.
#include <cuda_runtime_api.h>

#include <chrono>
#include <memory>

#include "rdma_engine/errors.h"
#include "xla_ffi/gpu/driver.h"
#include "xla_ffi/gpu/gpu.h"

namespace jaxina {
namespace {

std::string version(int number) { return std::to_string(number / 1000) + "." + std::to_string(number % 1000 / 10); }

std::string dma_buf_support(int ordinal) {
  int supported = 0;
  auto* attribute = driver_function<CUresult(int*, CUdevice_attribute, CUdevice)>("cuDeviceGetAttribute");
  if (attribute == nullptr) return "unknown";
  const CUresult result = attribute(&supported, CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED, ordinal);
  return result != CUDA_SUCCESS ? "unknown" : supported != 0 ? "yes" : "no";
}

constexpr int kCopies = 10;

void check(cudaError_t error, const char* what) {
  if (error != cudaSuccess) throw Error(ErrorCode::kGpu, std::string(what) + ": " + cudaGetErrorString(error));
}

double bandwidth(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  check(cudaMemcpy(to, from, bytes, kind), "copying");
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < kCopies; ++i) check(cudaMemcpyAsync(to, from, bytes, kind, nullptr), "copying");
  check(cudaStreamSynchronize(nullptr), "copying");
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  return kCopies * static_cast<double>(bytes) / taken.count();
}

}  // namespace

GpuFacts gpu_facts() {
  GpuFacts facts;
  int runtime = 0, driver = 0, count = 0;
  cudaRuntimeGetVersion(&runtime);
  cudaDriverGetVersion(&driver);
  facts.toolkit = "built with CUDA " + version(runtime) + ", " +
                  (driver > 0 ? "the driver is for CUDA " + version(driver) : "no driver");
  if (driver == 0 || cudaGetDeviceCount(&count) != cudaSuccess) count = 0;
  for (int i = 0; i < count; ++i) {
    cudaDeviceProp properties;
    if (cudaGetDeviceProperties(&properties, i) != cudaSuccess) continue;
    facts.gpus += (i > 0 ? ", " : "") + std::string(properties.name) + " (sm_" + std::to_string(properties.major) +
                  std::to_string(properties.minor) + ")";
    facts.dma_buf += (i > 0 ? ", " : "") + dma_buf_support(i);
  }
  if (count == 0) facts.gpus = "none", facts.dma_buf = "no GPU";
  return facts;
}

GpuLink gpu_link(std::size_t bytes) {
  void *host = nullptr, *gpu = nullptr;
  check(cudaSetDevice(0), "choosing GPU 0");
  check(cudaHostAlloc(&host, bytes, cudaHostAllocDefault), "allocating page-locked memory");
  const std::unique_ptr<void, cudaError_t (*)(void*)> host_memory(host, &cudaFreeHost);
  check(cudaMalloc(&gpu, bytes), "allocating memory of the GPU");
  const std::unique_ptr<void, cudaError_t (*)(void*)> gpu_memory(gpu, &cudaFree);
  return {bandwidth(host, gpu, bytes, cudaMemcpyDeviceToHost), bandwidth(gpu, host, bytes, cudaMemcpyHostToDevice)};
}

}  // namespace jaxina
