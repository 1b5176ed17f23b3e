// One GPU of this process: memory that it shares with the processor, a stream of its own for what the worker asks of
// it, and a thread that waits for what programs have computed.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <functional>
#include <memory>
#include <mutex>

#include "rdma_engine/engine/completion_thread.h"
#include "rdma_engine/worker/tensor_device.h"

namespace jaxina {

// Makes a GPU the thread's current one while it lives.
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
  // The GPU with this number among those that the process sees. It lives until the process ends. Throws Error(kGpu).
  static CudaDevice& of(int ordinal);

  // Calls then(status) on a thread of the device's, in the order of the calls, when all that is queued on the stream
  // now has run. Does not wait, and leaves nothing in the stream that could hold it up.
  void after(cudaStream_t stream, std::function<void(Status)> then);

  DeviceMemory allocate(std::size_t bytes) override;
  DeviceMemory share(std::span<const std::byte> memory) override;
  ExportedMemory allocate_exported(std::size_t bytes) override;
  Status start(const DeviceFormat& format, std::span<const DeviceTask> tasks, std::uint64_t& ticket) override;
  Status is_done(std::uint64_t ticket, bool& done) override;
  void wait(std::uint64_t ticket) override;

 private:
  // Batches whose ends are told apart; asking for one that is further back is asking for a later one.
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
