// Memory for messages, in whole pages of its own: it is made known to NICs and GPUs.
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
  // Zeroed.
  explicit MessageMemory(std::size_t bytes) : bytes_(bytes) {
    // Two pages: packet processors choose among a slot's four places (2048 bytes each for 256 words) by bits of the
    // address.
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
