// ReassemblyBuffers: the buffers in which a switch reassembles messages of several packets. A NIC interleaves the
// messages of all its queue pairs, so there is one buffer for every message that can be in progress. take() returns the
// buffer that was given back last. So if messages arrive one after the other, only a few buffers are ever touched, and
// the system provides memory for no others. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <vector>

#include "rdma_engine/base/assert.h"

namespace jaxina::roce {

class ReassemblyBuffers {
 public:
  // `bytes` is the size of one buffer.
  ReassemblyBuffers(std::size_t count, std::size_t bytes)
      : stride_(stride_for(bytes)),
        memory_(std::make_unique_for_overwrite<std::uint32_t[]>(count * stride_ / 4)),
        free_(count) {
    std::iota(free_.rbegin(), free_.rend(), std::uint32_t{0});
  }
  static std::size_t bytes_for(std::size_t count, std::size_t bytes) {
    return count * (stride_for(bytes) + sizeof(std::uint32_t));
  }

  std::uint8_t* take() {
    JAXINA_ASSERT(!free_.empty());
    const std::uint32_t buffer = free_.back();
    free_.pop_back();
    return reinterpret_cast<std::uint8_t*>(memory_.get()) + buffer * stride_;
  }
  void give_back(const std::uint8_t* buffer) {
    const auto offset = static_cast<std::size_t>(buffer - reinterpret_cast<const std::uint8_t*>(memory_.get()));
    free_.push_back(static_cast<std::uint32_t>(offset / stride_));
  }

 private:
  static constexpr std::size_t stride_for(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

  std::size_t stride_;
  std::unique_ptr<std::uint32_t[]> memory_;
  std::vector<std::uint32_t> free_;
};

}  // namespace jaxina::roce
