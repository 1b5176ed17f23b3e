// Implements TensorDevice for a GPU with the CUDA runtime.
#include "xla_ffi/gpu/cuda_device.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "xla_ffi/gpu/device_tasks.h"
#include "xla_ffi/gpu/driver.h"

namespace jaxina {
namespace {

void check(cudaError_t error, const char* what) {
  if (Status status = cuda_status(error, what); !status.ok()) throw Error(status);
}

}  // namespace

Status cuda_status(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return {};
  return {ErrorCode::kGpu, std::string(what) + ": " + cudaGetErrorString(error) + " (" + cudaGetErrorName(error) + ")"};
}

CurrentDevice::CurrentDevice(int ordinal) {
  int current = -1;
  if (cudaGetDevice(&current) == cudaSuccess && current == ordinal) return;
  if (cudaSetDevice(ordinal) == cudaSuccess) before_ = current;
}

CurrentDevice::~CurrentDevice() {
  if (before_ >= 0) cudaSetDevice(before_);
}

CudaDevice& CudaDevice::of(int ordinal) {
  static std::mutex mutex;
  // Never destroyed: threads may still use them when static destructors run, and the driver may be gone by then.
  static auto* devices = new std::map<int, CudaDevice*>;
  const std::lock_guard guard(mutex);
  const auto known = devices->find(ordinal);
  if (known != devices->end()) return *known->second;
  auto* device = new CudaDevice(ordinal);
  devices->emplace(ordinal, device);
  return *device;
}

CudaDevice::CudaDevice(int ordinal) : ordinal_(ordinal) {
  const CurrentDevice current(ordinal_);
  int least = 0, greatest = 0;
  check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "asking for the priorities of streams");
  // The highest priority, so that our kernels run before the program's: they are short, and the network waits for them.
  check(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, greatest), "creating a stream");
  for (cudaEvent_t& event : events_) {
    check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "creating an event");
  }
}

void CudaDevice::after(cudaStream_t stream, std::function<void(Status)> then) {
  const CurrentDevice current(ordinal_);
  cudaEvent_t event = nullptr;
  Status status = cuda_status(cudaEventCreateWithFlags(&event, cudaEventDisableTiming | cudaEventBlockingSync),
                              "creating an event");
  if (status.ok()) status = cuda_status(cudaEventRecord(event, stream), "recording an event");
  arrivals_.post(
      [this, event, then = std::move(then)](Status recorded) {
        const CurrentDevice waiting(ordinal_);
        if (recorded.ok()) recorded = cuda_status(cudaEventSynchronize(event), "waiting for the operands of a psum");
        if (event != nullptr) cudaEventDestroy(event);
        then(std::move(recorded));
      },
      std::move(status));
}

DeviceMemory CudaDevice::allocate(std::size_t bytes) {
  const CurrentDevice current(ordinal_);
  void* memory = nullptr;
  // With unified addressing, the memory has the same address on this processor and on every GPU.
  check(cudaHostAlloc(&memory, std::max<std::size_t>(bytes, 1), cudaHostAllocPortable | cudaHostAllocMapped),
        "allocating page-locked memory");
  std::fill_n(static_cast<std::byte*>(memory), bytes, std::byte{0});
  return {static_cast<std::byte*>(memory), [](std::byte* address) { cudaFreeHost(address); }};
}

DeviceMemory CudaDevice::share(std::span<const std::byte> memory) {
  const CurrentDevice current(ordinal_);
  int devices = 0;
  check(cudaGetDeviceCount(&devices), "counting GPUs");
  for (int device = 0; device < devices; ++device) {
    int same_address = 0;
    check(cudaDeviceGetAttribute(&same_address, cudaDevAttrCanUseHostPointerForRegisteredMem, device),
          "asking for an attribute");
    if (same_address == 0) {
      throw Error(ErrorCode::kGpu, "GPU " + std::to_string(device) + " has other addresses for the processor's memory");
    }
  }
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<std::uintptr_t>(memory.data()) / page * page;
  const auto end = (reinterpret_cast<std::uintptr_t>(memory.data()) + memory.size() + page - 1) / page * page;
  auto* const pages = reinterpret_cast<std::byte*>(begin);
  const cudaError_t error = cudaHostRegister(pages, end - begin, cudaHostRegisterPortable | cudaHostRegisterMapped);
  if (error != cudaSuccess) cudaGetLastError();  // clears it; otherwise a later, unrelated check would report it
  check(error, "page-locking a transport's memory");
  return {const_cast<std::byte*>(memory.data()), [pages](std::byte*) { cudaHostUnregister(pages); }};
}

ExportedMemory CudaDevice::allocate_exported(std::size_t bytes) {
  const CurrentDevice current(ordinal_);
  // 2 MiB is the driver's own unit of allocation. Whole units share no page with other memory, which an export demands.
  constexpr std::size_t kUnit = std::size_t{2} << 20;
  const std::size_t whole = std::max<std::size_t>((bytes + kUnit - 1) / kUnit, 1) * kUnit;
  void* memory = nullptr;
  check(cudaMalloc(&memory, whole), "allocating memory for messages");
  ExportedMemory exported{{static_cast<std::byte*>(memory), [](std::byte* address) { cudaFree(address); }}, whole, -1};
  check(cudaMemsetAsync(memory, 0, whole, stream_), "clearing memory for messages");
  check(cudaStreamSynchronize(stream_), "clearing memory for messages");
  auto* const export_range =
      driver_function<CUresult(void*, CUdeviceptr, std::size_t, CUmemRangeHandleType, unsigned long long)>(
          "cuMemGetHandleForAddressRange");
  const auto address = reinterpret_cast<CUdeviceptr>(memory);
  int file = -1;
  if (export_range == nullptr ||
      export_range(&file, address, whole, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0) != CUDA_SUCCESS) {
    return exported;  // this driver exports no dma-buf
  }
  exported.dmabuf = file;
  exported.memory.get_deleter() = [file](std::byte* memory_of_gpu) {
    close(file);
    cudaFree(memory_of_gpu);
  };
  return exported;
}

Status CudaDevice::start(const DeviceFormat& format, std::span<const DeviceTask> tasks, std::uint64_t& ticket) {
  const CurrentDevice current(ordinal_);
  const std::lock_guard guard(mutex_);
  Status status = queue_tasks(stream_, format, tasks);
  if (status.ok()) {
    ticket = ++started_;
    status = cuda_status(cudaEventRecord(event(ticket), stream_), "recording an event");
  }
  if (!status.ok()) cudaStreamSynchronize(stream_);  // the batch may be running, and the caller waits for no ticket
  return status;
}

Status CudaDevice::is_done(std::uint64_t ticket, bool& done) {
  const CurrentDevice current(ordinal_);
  const cudaError_t error = cudaEventQuery(event(ticket));
  done = error == cudaSuccess;
  return error == cudaErrorNotReady ? Status() : cuda_status(error, "a kernel of jaxina's failed");
}

void CudaDevice::wait(std::uint64_t ticket) {
  const CurrentDevice current(ordinal_);
  cudaEventSynchronize(event(ticket));  // its error does not matter here: a failed device touches no memory either
}

}  // namespace jaxina
