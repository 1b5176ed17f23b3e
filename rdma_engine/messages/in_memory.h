// InMemory: the memory of a device in software. The processor assembles and places its packets. `Base` is MessageQueues
// or QueuePairs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>

#include "rdma_engine/messages/message_memory.h"
#include "rdma_engine/messages/queue_pairs.h"

namespace jaxina::roce {

// The address that the receive memory of a device in software pretends to have. The peer's addresses are offsets from
// it, never pointers of this process.
inline constexpr std::uint64_t kSoftBase = std::uint64_t{1} << 32;

template <typename Base>
class InMemory : public Base {
 public:
  std::span<std::uint8_t> send_memory() final { return send_.bytes(); }
  std::span<const std::uint8_t> receive_memory() const final { return receive_.bytes(); }
  // The processor assembles the packets, so a GPU's memory is of no use.
  bool adopt(const std::function<ExportedMemory()>&) final { return false; }

 protected:
  InMemory(ConnectionEnd local, std::size_t send_bytes, std::size_t receive_bytes)
      : local_(std::move(local)), send_(send_bytes), receive_(receive_bytes) {
    local_.memory = kSoftBase;
  }

  std::span<std::uint8_t> writable_memory() { return receive_.bytes(); }
  // Where a message may be written, or nullptr if its key or its address allows nothing.
  std::uint8_t* resolve(const Headers& headers) {
    const std::uint64_t offset = headers.address - kSoftBase;
    const std::span<std::uint8_t> memory = receive_.bytes();
    const bool inside =
        headers.address >= kSoftBase && offset <= memory.size() && headers.length <= memory.size() - offset;
    return inside && headers.rkey == local_.rkey ? memory.data() + offset : nullptr;
  }

  ConnectionEnd local_;

 private:
  MessageMemory send_, receive_;
};

}  // namespace jaxina::roce
