// Runs the bodies of the CUDA kernels on the CPU, thread by thread, with a memory that watches every access. An access
// must lie in a buffer that the memory knows, and must be aligned to its own size, as the GPU demands. The memory
// counts the reads and writes of every byte.
#pragma once

#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "cuda_kernels/forms.h"
#include "cuda_kernels/kernel_bodies.h"
#include "cuda_kernels/plan.h"

namespace jaxina::cuda::testing {

struct Buffer {
  const std::byte* begin;
  std::vector<std::uint8_t> reads, writes;
};

class WatchedMemory {
 public:
  void add(const void* begin, std::size_t bytes) {
    buffers_.push_back(
        {static_cast<const std::byte*>(begin), std::vector<std::uint8_t>(bytes), std::vector<std::uint8_t>(bytes)});
  }
  // Whether each of these bytes was read and written exactly so often.
  bool accessed(const void* begin, std::size_t bytes, std::uint8_t reads, std::uint8_t writes) {
    if (bytes == 0) return true;
    auto [buffer, offset] = find(begin, bytes);
    for (std::size_t i = offset; i < offset + bytes; ++i) {
      if (buffer->reads[i] != reads || buffer->writes[i] != writes) return false;
    }
    return true;
  }
  void read(void* to, const void* from, std::size_t bytes, std::size_t alignment) {
    auto [buffer, offset] = find_aligned(from, bytes, alignment);
    for (std::size_t i = 0; i < bytes; ++i) ++buffer->reads[offset + i];
    std::memcpy(to, from, bytes);
  }
  void write(void* to, const void* from, std::size_t bytes, std::size_t alignment) {
    auto [buffer, offset] = find_aligned(to, bytes, alignment);
    for (std::size_t i = 0; i < bytes; ++i) ++buffer->writes[offset + i];
    std::memcpy(to, from, bytes);
  }
  std::size_t widest() const { return widest_; }  // size of the largest access, in bytes

 private:
  std::pair<Buffer*, std::size_t> find(const void* pointer, std::size_t bytes) {
    const auto* first = static_cast<const std::byte*>(pointer);
    for (Buffer& buffer : buffers_) {
      if (first >= buffer.begin && first + bytes <= buffer.begin + buffer.reads.size()) {
        return {&buffer, static_cast<std::size_t>(first - buffer.begin)};
      }
    }
    throw std::logic_error("an access of " + std::to_string(bytes) + " bytes lies outside all buffers");
  }
  std::pair<Buffer*, std::size_t> find_aligned(const void* pointer, std::size_t bytes, std::size_t alignment) {
    if (reinterpret_cast<std::uintptr_t>(pointer) % alignment != 0) {
      throw std::logic_error("an access of " + std::to_string(bytes) + " bytes is misaligned");
    }
    widest_ = std::max(widest_, bytes);
    return find(pointer, bytes);
  }

  std::vector<Buffer> buffers_;
  std::size_t widest_ = 0;
};

// The `Memory` of a kernel body.
struct WatchedAccess {
  WatchedMemory* memory;

  template <std::uint32_t n, class T>
  Packed<T, n> load(const T* from) const {
    Packed<T, n> value;
    memory->read(&value, from, sizeof(value), alignof(Packed<T, n>));
    return value;
  }
  template <std::uint32_t n, class T>
  void store(T* to, Packed<T, n> value) const {
    memory->write(to, &value, sizeof(value), alignof(Packed<T, n>));
  }
};

inline std::uint64_t threads_for(std::uint64_t groups, std::uint32_t log2_lanes) {
  return std::uint64_t{thread_blocks(groups, log2_lanes)} * kThreads;
}

template <class Form, class Word, bool stochastic>
void run_encode(const EncodeJob& job, std::uint64_t groups, WatchedAccess memory) {
  for (std::uint64_t thread = 0; thread < threads_for(groups, job.log2_lanes); ++thread) {
    encode_block<Form, Word, stochastic>(job, lane_of(thread, job.log2_lanes), memory);
  }
}

template <class Form, class Word, bool divides>
void run_decode(const DecodeJob& job, WatchedAccess memory) {
  for (std::uint64_t thread = 0; thread < threads_for(job.runs.blocks(), job.log2_lanes); ++thread) {
    decode_block<Form, Word, divides>(job, lane_of(thread, job.log2_lanes), memory);
  }
}

// Finds packed flags and applies them.
template <class Form>
void run_packed_flags(const EncodeJob& find, const DecodeJob& apply, WatchedAccess memory) {
  for (std::uint64_t thread = 0; thread < threads_for(find.runs.blocks(), find.log2_lanes); ++thread) {
    encode_packed_flags<Form>(find, lane_of(thread, find.log2_lanes), memory);
  }
  for (std::uint64_t thread = 0; thread < threads_for(apply.runs.blocks(), apply.log2_lanes); ++thread) {
    decode_packed_flags<Form>(apply, lane_of(thread, apply.log2_lanes), memory);
  }
}

// Runs warp by warp. All threads of a warp find their maximum, then exchange it with the threads whose number differs
// in one bit, as group_maximum() in launch.h does, then end.
template <class Form>
void run_exponents(const ExponentJob& job, std::uint64_t groups, WatchedAccess memory) {
  for (std::uint64_t warp = 0; warp < threads_for(groups, job.log2_lanes); warp += kWarp) {
    std::uint32_t values[kWarp];
    for (std::uint32_t t = 0; t < kWarp; ++t) {
      values[t] = begin_exponent<Form, exponents_in_flight(sizeof(typename Form::Element))>(
          job, lane_of(warp + t, job.log2_lanes), memory);
    }
    for (std::uint32_t distance = job.lanes() / 2; distance > 0; distance /= 2) {
      std::uint32_t exchanged[kWarp];
      for (std::uint32_t t = 0; t < kWarp; ++t) exchanged[t] = std::max(values[t], values[t ^ distance]);
      std::memcpy(values, exchanged, sizeof(values));
    }
    for (std::uint32_t t = 0; t < kWarp; ++t) {
      end_exponent<Form>(job, lane_of(warp + t, job.log2_lanes), values[t], memory);
    }
  }
}

}  // namespace jaxina::cuda::testing
