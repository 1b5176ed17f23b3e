// One GPU of this process. It has memory that it shares with the processor, a stream for the worker's kernels, and a
// thread that waits until programs have computed the operands of a psum.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <functional>
#include <memory>
#include <mutex>

#include "rdma_engine/engine/completion_thread.h"
#include "rdma_engine/worker/tensor_device.h"

namespace jaxina {

// Makes a GPU the calling thread's current device for as long as this object lives.
class CurrentDevice {
 public:
  explicit CurrentDevice(int ordinal);
  ~CurrentDevice();
  CurrentDevice(const CurrentDevice&) = delete;

 private:
  int before_ = -1;
};

class CudaDevice final : public TensorDevice {
 public:
  // Returns the GPU with this number among those that the process sees. It lives until the process ends. Throws
  // Error(kGpu).
  static CudaDevice& of(int ordinal);

  // Calls then(status) once everything that is queued on the stream now has run. The calls of `then` come on the
  // device's thread, in the order of the calls of after(). Does not wait, and does not hold the stream up.
  void after(cudaStream_t stream, std::function<void(Status)> then);

  DeviceMemory allocate(std::size_t bytes) override;
  DeviceMemory share(std::span<const std::byte> memory) override;
  ExportedMemory allocate_exported(std::size_t bytes) override;
  Status start(const DeviceFormat& format, std::span<const DeviceTask> tasks, std::uint64_t& ticket) override;
  Status is_done(std::uint64_t ticket, bool& done) override;
  void wait(std::uint64_t ticket) override;

 private:
  // Batch t uses event t mod kEvents. Once kEvents later batches have started, asking about t asks about a later batch,
  // which is safe: the stream runs them in order, so t is done when the later one is.
  static constexpr std::size_t kEvents = 64;

  explicit CudaDevice(int ordinal);
  cudaEvent_t event(std::uint64_t ticket) const { return events_[ticket % kEvents]; }

  const int ordinal_;
  cudaStream_t stream_ = nullptr;
  std::array<cudaEvent_t, kEvents> events_{};
  std::mutex mutex_;
  std::uint64_t started_ = 0;
  CompletionThread arrivals_;
};

Status cuda_status(cudaError_t error, const char* what);

}  // namespace jaxina
