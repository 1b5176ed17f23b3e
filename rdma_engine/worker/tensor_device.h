// TensorDevice: a device with tensors that the processor does not read, such as a GPU. An implementation converts
// tensors to words and sums back to tensors, asynchronously. The worker keeps the protocol and never touches a tensor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <tuple>

#include "rdma_engine/errors.h"
#include "rdma_engine/numerics/codec.h"
#include "rdma_engine/numerics/element_codec.h"

namespace jaxina {

// The kinds of work on consecutive blocks of one tensor in one chunk. A batch processes them in this order: all results
// are written before any tensor is read, because a sum may be stored where its operand was.
enum class DeviceWork : std::uint8_t {
  kApplyFlagsClearing,  // words -> tensor, see ElementCodec::apply_flags; clear = true
  kApplyFlags,          // clear = false
  kDecode,              // words, exponents -> tensor; keep_non_finite = false
  kDecodeKeeping,       // keep_non_finite = true
  kDivide,              // sums of narrow words, 32 bits each, exponents -> tensor; keep_non_finite = false
  kDivideKeeping,       // keep_non_finite = true
  kFlags,               // tensor -> words
  kFiniteExponents,     // tensor -> exponents
  kEncode,              // tensor, exponents -> words
  kEncodeAdding,        // the same, added to the words that are there: 32 bits each, in the host's order
  kExponents,           // tensor -> exponents
  kClear,               // 0 -> words, `elements` of them; no tensor
};

struct DeviceTask {
  DeviceWork work;
  numerics::ElementType type;
  numerics::Order order;  // byte order of the words; the same for all tasks of this kind in a batch
  std::size_t elements;   // elements of all the blocks; only the last block may be short
  std::byte* tensor;      // the first element of the first block
  // Block i's words begin block_size * i words later; gaps between blocks are set to 0. Narrow words and their flags
  // are packed as in passes (wire::Format), so block i begins packed_size() or packed_flags_size() of block_size * i
  // later.
  std::uint32_t* words;
  std::uint8_t* exponents;  // one per block
  numerics::WireWord word = numerics::WireWord::kInt32;
  // How narrow words are rounded when they are encoded or divided: element i takes the random number of (seed, i).
  numerics::Rounding rounding = {};
};

// What tasks have in common that one kernel can do.
inline auto kind_of(const DeviceTask& task) {
  return std::tuple(task.work, task.type, task.word, task.rounding.stochastic);
}

// The parameters that all tasks of a stream share.
struct DeviceFormat {
  std::uint32_t block_size = 0;  // words
  std::uint32_t devices = 0;     // n
  // By how many bits sums of narrow words are divided, in all and by kDivide.
  std::uint32_t narrow_shift = 0, narrow_division = 0;
};

// Memory that the processor and the devices can reach as long as this object lives.
using DeviceMemory = std::unique_ptr<std::byte[], std::function<void(std::byte*)>>;

// Memory of a device that a network card may read. The processor does not read it.
struct ExportedMemory {
  DeviceMemory memory;  // at the device's address
  std::size_t bytes = 0;
  int dmabuf = -1;  // a dma-buf file of this memory, open as long as it lives; -1: none, only the address identifies it
};

// Thread-safe. There is one for each device of the process, and it outlives all users.
class TensorDevice {
 public:
  virtual ~TensorDevice() = default;

  // Returns zeroed memory that all devices of the process can reach. Throws Error.
  virtual DeviceMemory allocate(std::size_t bytes) = 0;

  // Lets all devices of the process reach this host memory at its own addresses; they also reach everything else in its
  // pages. Throws Error if that is not possible.
  virtual DeviceMemory share(std::span<const std::byte> memory) = 0;

  // Returns zeroed memory. Throws Error.
  virtual ExportedMemory allocate_exported(std::size_t bytes) = 0;

  // Starts a batch, which is sorted by kind_of(), and returns without waiting. It runs after all batches that were
  // started on this device before. On success `ticket` is the batch's number. Batches are numbered in the order of
  // their start, whoever starts them.
  virtual Status start(const DeviceFormat& format, std::span<const DeviceTask> tasks, std::uint64_t& ticket) = 0;

  // Reports whether the batch with this number is done, so that what it wrote may be read here. Does not wait. A
  // failure is final.
  virtual Status is_done(std::uint64_t ticket, bool& done) = 0;

  // Returns once the batch no longer touches any memory, whether it is done or failed.
  virtual void wait(std::uint64_t ticket) = 0;
};

}  // namespace jaxina
