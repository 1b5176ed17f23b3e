// MessageMemory: zeroed memory for messages. It consists of whole pages of its own, because NICs and GPUs register it.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <span>

namespace jaxina::roce {

class MessageMemory {
 public:
  // Throws std::bad_alloc.
  explicit MessageMemory(std::size_t bytes) : bytes_(bytes) {
    // Aligned to 8192 bytes, because packet processors select one of a slot's four places by bits of the address (2048
    // bytes each for 256 words).
    const std::size_t alignment = std::max<std::size_t>(8192, static_cast<std::size_t>(sysconf(_SC_PAGESIZE)));
    const std::size_t whole = (bytes + alignment - 1) / alignment * alignment;
    memory_.reset(static_cast<std::uint8_t*>(std::aligned_alloc(alignment, whole)));
    if (!memory_) throw std::bad_alloc();
    std::memset(memory_.get(), 0, whole);
  }
  std::span<std::uint8_t> bytes() const { return {memory_.get(), bytes_}; }

 private:
  struct Free {
    void operator()(std::uint8_t* memory) const { std::free(memory); }
  };
  std::size_t bytes_;
  std::unique_ptr<std::uint8_t[], Free> memory_;
};

}  // namespace jaxina::roce
