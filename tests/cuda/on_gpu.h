// What the checks of the kernels on a GPU share: memory of the GPU, values of every kind, what the CPU codec computes
// for them, and counts of what was compared.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "cuda_kernels/block_fixed_point.h"
#include "rdma_engine/numerics/element_codec.h"
#include "rdma_engine/numerics/stochastic_rounding.h"

namespace jaxina::cuda::on_gpu {

using numerics::ElementCodec;
using numerics::ElementType;
using numerics::Order;
using numerics::Store;
using numerics::WireWord;

inline constexpr std::uint8_t kUntouched = 0xa5;

inline void must(cudaError_t error, const char* what) {
  if (error != cudaSuccess) throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(error));
}
inline void must(const Status& status) {
  if (!status.ok()) throw std::runtime_error(status.text());
}

// Device memory at a chosen offset from a 256-byte boundary, filled with a pattern.
class DeviceBytes {
 public:
  DeviceBytes(std::size_t size, std::size_t offset) : size_(size), offset_(offset) {
    must(cudaMalloc(&memory_, size + offset + 64), "cudaMalloc");
    must(cudaMemset(memory_, kUntouched, size + offset + 64), "cudaMemset");
  }
  ~DeviceBytes() { cudaFree(memory_); }
  DeviceBytes(const DeviceBytes&) = delete;
  DeviceBytes& operator=(const DeviceBytes&) = delete;

  std::uint8_t* data() const { return static_cast<std::uint8_t*>(memory_) + offset_; }
  std::size_t size() const { return size_; }
  void put(const std::vector<std::uint8_t>& bytes) {
    must(cudaMemcpy(data(), bytes.data(), bytes.size(), cudaMemcpyHostToDevice), "copying to the GPU");
  }
  // Returns the bytes, and 16 bytes behind them, which nobody may touch.
  std::vector<std::uint8_t> get() const {
    std::vector<std::uint8_t> bytes(size_ + 16);
    must(cudaMemcpy(bytes.data(), data(), bytes.size(), cudaMemcpyDeviceToHost), "copying from the GPU");
    return bytes;
  }

 private:
  void* memory_ = nullptr;
  std::size_t size_, offset_;
};

inline std::mt19937_64 random_bits;
inline std::uint64_t below(std::uint64_t bound) { return random_bits() % bound; }

inline std::uint64_t exponent_mask(ElementType type) {
  switch (type) {
    case ElementType::kFloat32:
    case ElementType::kWideFloat32: return 0x7f800000;
    case ElementType::kFloat16:
    case ElementType::kWideFloat16: return 0x7c00;
    case ElementType::kBfloat16:
    case ElementType::kWideBfloat16: return 0x7f80;
    case ElementType::kFloat64: return 0x7ff0000000000000;
    default: return 0;
  }
}

// Returns random elements. A block has any bits, zeros, subnormal numbers, huge numbers, numbers of one magnitude, or
// some NaN and Inf.
inline std::vector<std::uint8_t> elements(ElementType type, std::size_t count, std::size_t of_block) {
  const std::size_t size = numerics::element_codec(type).size;
  const std::uint64_t mask = exponent_mask(type), lowest = mask & (~mask + 1);
  std::vector<std::uint8_t> bytes(count * size);
  for (std::size_t first = 0; first < count; first += of_block) {
    const std::uint64_t kind = below(6), field = mask == 0 ? 0 : lowest * (1 + below(mask / lowest - 1));
    for (std::size_t i = first; i < std::min(count, first + of_block); ++i) {
      std::uint64_t bits = random_bits();
      if (kind == 0) bits = 0;
      if (kind == 1) bits &= ~mask;
      if (kind == 2) bits = (bits & ~mask) | (mask - lowest);
      if (kind >= 4) bits = (bits & ~mask) | (field > 3 * lowest ? field - lowest * below(3) : field);
      if (kind == 5 && below(9) == 0) bits |= mask;
      if (kind == 5 && below(30) == 0) bits = mask | (below(2) << (8 * size - 1));
      std::memcpy(bytes.data() + i * size, &bits, size);
    }
  }
  return bytes;
}

inline std::size_t elements_of_block(const Format& format) {
  return format.block_size / numerics::element_codec(format.type).words;
}
inline std::size_t blocks_for(const Format& format, std::size_t count) {
  return (count + elements_of_block(format) - 1) / elements_of_block(format);
}
// `stored`: the width of the words in memory. Narrow words fill up the last 32 bits.
inline std::size_t words_for(const Format& format, std::size_t count, WireWord stored = WireWord::kInt32) {
  if (count == 0) return 0;
  const std::size_t before = blocks_for(format, count) - 1;
  const std::size_t words = before * format.block_size +
                            (count - before * elements_of_block(format)) * numerics::element_codec(format.type).words;
  return numerics::packed_size(words, stored) * 4 / static_cast<std::size_t>(stored);
}

// ---- the CPU's results

inline std::vector<std::uint8_t> cpu_exponents(const Format& format, const std::vector<std::uint8_t>& x,
                                               std::size_t count, bool finite_only) {
  const ElementCodec& codec = numerics::element_codec(format.type);
  const std::size_t of_block = elements_of_block(format);
  std::vector<std::uint8_t> exponents;
  for (std::size_t first = 0; first < count; first += of_block) {
    exponents.push_back((finite_only ? codec.finite_exponent : codec.exponent)(
        numerics::codec(), x.data() + first * codec.size, std::min(of_block, count - first)));
  }
  return exponents;
}

// The bytes of these words in memory.
inline std::vector<std::uint8_t> stored(const std::vector<std::uint32_t>& words, WireWord word, Order order) {
  const auto size = static_cast<std::size_t>(word);
  std::vector<std::uint8_t> bytes(4 * numerics::packed_size(words.size(), word));
  for (std::size_t i = 0; i < words.size(); ++i) {
    for (std::size_t b = 0; b < size; ++b) {
      bytes[i * size + b] =
          static_cast<std::uint8_t>(words[i] >> (8 * (order == Order::kBigEndian ? size - 1 - b : b)));
    }
  }
  return bytes;
}

// The words that the CPU codec encodes, in 32 bits each.
inline std::vector<std::uint32_t> cpu_words(const Format& format, const std::vector<std::uint8_t>& x, std::size_t count,
                                            const std::vector<std::uint8_t>& exponents, bool stochastic,
                                            std::uint64_t seed) {
  const ElementCodec& codec = numerics::element_codec(format.type);
  const numerics::Scale scale =
      format.word == WireWord::kInt32 ? numerics::scale_for(format.workers) : numerics::narrow_scale(format.word, 0);
  const std::size_t of_block = elements_of_block(format);
  std::vector<std::uint32_t> words(words_for(format, count));
  for (std::size_t b = 0; b < blocks_for(format, count); ++b) {
    const std::size_t first = b * of_block, n = std::min(of_block, count - first);
    const std::uint8_t* from = x.data() + first * codec.size;
    std::uint32_t* to = words.data() + b * format.block_size;
    if (stochastic) {
      codec.encode_at_random(numerics::codec(), from, n, exponents[b], scale, numerics::seed_from(seed, first), false,
                             to);
    } else {
      codec.encode(numerics::codec(), from, n, exponents[b], scale, Store::kWrite, to);
    }
  }
  return words;
}

// Decodes such words; narrow ones must have been divided.
inline void cpu_values(const Format& format, const std::vector<std::uint32_t>& words, std::size_t count,
                       const std::vector<std::uint8_t>& exponents, bool keep, std::vector<std::uint8_t>& y) {
  const ElementCodec& codec = numerics::element_codec(format.type);
  const auto shift = static_cast<std::int32_t>(format.shift);
  const numerics::Scale scale = format.word == WireWord::kInt32 ? numerics::scale_for(format.workers)
                                                                : numerics::narrow_scale(format.word, shift);
  const std::size_t of_block = elements_of_block(format);
  for (std::size_t b = 0; b < blocks_for(format, count); ++b) {
    const std::size_t first = b * of_block, n = std::min(of_block, count - first);
    codec.decode(numerics::codec(), words.data() + b * format.block_size, n, exponents[b], scale, Order::kHost, keep,
                 y.data() + first * codec.size);
  }
}

// ---- comparing

inline int passed = 0, failed = 0, skipped = 0;

// What the program returns. scripts/gpu_check.sh takes 3 for "not possible here": what was skipped has not passed.
constexpr int exit_status(int passed, int failed, int skipped) {
  return failed > 0 || passed == 0 ? 1 : skipped > 0 ? 3 : 0;
}
static_assert(exit_status(2, 0, 0) == 0 && exit_status(2, 0, 1) == 3);
static_assert(exit_status(2, 1, 1) == 1 && exit_status(0, 0, 0) == 1 && exit_status(0, 0, 1) == 1);

inline std::string name_of(const Format& format) {
  return std::string(to_string(format.type)) + " k=" + std::to_string(format.block_size) +
         " n=" + std::to_string(format.workers) + " word=" + std::to_string(8 * static_cast<int>(format.word)) +
         (format.order == Order::kBigEndian ? " big-endian" : "");
}

// Compares the bytes with the expected ones. The bytes behind them must be untouched.
inline void compare(const std::string& what, const std::vector<std::uint8_t>& actual,
                    std::vector<std::uint8_t> expected) {
  expected.resize(actual.size(), kUntouched);
  for (std::size_t i = 0; i < actual.size(); ++i) {
    if (actual[i] == expected[i]) continue;
    if (++failed < 20)
      std::printf("FAILED %s: byte %zu of %zu is %u, not %u\n", what.c_str(), i, actual.size(), actual[i], expected[i]);
    return;
  }
  ++passed;
}

struct Tensor {
  // `stored`: the width of the words in memory.
  Tensor(const Format& format, WireWord stored, std::size_t elements_, bool anywhere)
      : count(elements_),
        host(elements(format.type, count, elements_of_block(format))),
        x(host.size(), anywhere ? offset(numerics::element_codec(format.type).size) : 0),
        words(words_for(format, count, stored) * static_cast<std::size_t>(stored),
              anywhere ? offset(static_cast<std::size_t>(stored)) : 0),
        exponents(blocks_for(format, count), anywhere ? below(7) : 0) {
    x.put(host);
  }
  static std::size_t offset(std::size_t alignment) { return alignment * below(16 / alignment); }

  std::size_t count;
  std::uint64_t seed = random_bits();
  std::vector<std::uint8_t> host;
  DeviceBytes x, words, exponents;
};

inline void set_exponents(const Format& format, Tensor& tensor, std::vector<std::uint8_t>& exponents) {
  exponents = cpu_exponents(format, tensor.host, tensor.count, true);
  const unsigned most = format.type == ElementType::kFloat64 ? 227 : 254;
  for (std::uint8_t& exponent : exponents) {
    exponent = static_cast<std::uint8_t>(std::min<std::uint64_t>(exponent + below(3), most));
    if (format.type != ElementType::kFloat64 && below(8) == 0) exponent = static_cast<std::uint8_t>(below(255));
  }
  tensor.exponents.put(exponents);
}

inline std::vector<std::unique_ptr<Tensor>> tensors_of(const Format& format, WireWord stored, bool anywhere,
                                                       std::size_t how_many) {
  const std::size_t of_block = elements_of_block(format);
  std::vector<std::unique_ptr<Tensor>> tensors;
  for (std::size_t t = 0; t < how_many; ++t) {
    const std::size_t counts[] = {1 + below(40 * of_block), of_block, 7 * of_block + 1, 1, 0, 300 * of_block - 1};
    tensors.push_back(std::make_unique<Tensor>(format, stored, counts[t % std::size(counts)], anywhere));
  }
  return tensors;
}

}  // namespace jaxina::cuda::on_gpu
