// Where tensors lie that this processor does not read: a GPU. What stands behind it turns tensors into words and sums
// back, beside the caller; the worker keeps the protocol and never touches a tensor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "rdma_engine/errors.h"
#include "rdma_engine/numerics/codec.h"
#include "rdma_engine/numerics/element_codec.h"

namespace jaxina {

// What is done to consecutive blocks of one tensor that lie in one chunk. The order is that in which a batch is worked
// off: what came back is written before anything is read again, since a sum may lie where its operand did.
enum class DeviceWork : std::uint8_t {
  kApplyFlagsClearing,  // words -> tensor, see ElementCodec::apply_flags; clear = true
  kApplyFlags,          // clear = false
  kDecode,              // words, exponents -> tensor; keep_non_finite = false
  kDecodeKeeping,       // keep_non_finite = true
  kFlags,               // tensor -> words
  kFiniteExponents,     // tensor -> exponents
  kEncode,              // tensor, exponents -> words
  kExponents,           // tensor -> exponents
  kClear,               // 0 -> words; `elements` of them, of no tensor
};

struct DeviceTask {
  DeviceWork work;
  numerics::ElementType type;
  numerics::Order order;    // of the words; the same for all of a batch that are of this work
  std::size_t elements;     // all of the blocks; only the last block may be short
  std::byte* tensor;        // the first block's first element
  std::uint32_t* words;     // block i's begin at words + i * block_size; what is between two blocks' words becomes 0
  std::uint8_t* exponents;  // one a block
};

// What all tasks of a stream have in common.
struct DeviceFormat {
  std::uint32_t block_size = 0;  // words
  std::uint32_t devices = 0;     // n
};

// Memory that this processor and the devices both reach, for as long as this lives.
using DeviceMemory = std::unique_ptr<std::byte[], std::function<void(std::byte*)>>;

// Memory of a device's own, which a network card may read. This processor does not.
struct ExportedMemory {
  DeviceMemory memory;  // under the device's address
  std::size_t bytes = 0;
  int dmabuf =
      -1;  // a file, open as long as the memory lives, that is this memory; -1: only the address says what it is
};

// Thread-safe. One for each device of the process, and it outlives all who use it.
class TensorDevice {
 public:
  virtual ~TensorDevice() = default;

  // Zeroed, and reached by all devices of the process. Throws Error.
  virtual DeviceMemory allocate(std::size_t bytes) = 0;

  // Lets all devices of the process reach memory of this processor's, under its own addresses, and whatever else lies
  // in the same pages. Throws Error where that is not possible.
  virtual DeviceMemory share(std::span<const std::byte> memory) = 0;

  // Zeroed. Throws Error.
  virtual ExportedMemory allocate_exported(std::size_t bytes) = 0;

  // Starts a batch, after all that were started here before, and returns without waiting for it. On success `ticket` is
  // its number: batches are numbered in their order, whoever starts them.
  virtual Status start(const DeviceFormat& format, std::span<const DeviceTask> tasks, std::uint64_t& ticket) = 0;

  // Whether the batch with this number is done, and what it wrote may be read here; does not wait. A failure is final.
  virtual Status is_done(std::uint64_t ticket, bool& done) = 0;

  // Returns when nothing of the batch touches memory any more, done or failed.
  virtual void wait(std::uint64_t ticket) = 0;
};

}  // namespace jaxina
