// NarrowBlocks: converts blocks whose words have 8 or 16 bits, between tensors in host memory and passes. wire_words.h
// has the arithmetic, wire::Format the form of packed words.
//
// Random numbers do not depend on slots, chunks, transports or the order of arrival. An element's random number follows
// from the collective's seed, from the device, process or sum that is rounded, and from the element's place among the
// collective's narrow blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "rdma_engine/numerics/codec.h"
#include "rdma_engine/worker/layout.h"
#include "rdma_engine/worker/pass.h"

namespace jaxina {

class NarrowBlocks {
 public:
  // `worker`: this worker's index. All workers must have different ones, or their random numbers are equal.
  NarrowBlocks(const JobShape& shape, std::uint32_t worker, const numerics::Codec& codec);

  // The scale of a device's words, and that of the words of a sum.
  numerics::Scale encode_scale(numerics::WireWord word) const { return numerics::narrow_scale(word, 0); }
  numerics::Scale decode_scale(numerics::WireWord word) const {
    return numerics::narrow_scale(word, log2_devices_ + log2_workers_);
  }
  // By how many bits the aggregator divides sums. In memory that the workers share, each of them does it.
  std::uint32_t sum_shift() const { return static_cast<std::uint32_t>(log2_workers_); }

  // Writes or adds this process's words of a block, each in 32 bits.
  void encode(const Layout& layout, const Block& block, std::uint8_t exponent, std::uint32_t* words, bool add);
  // Takes a sum whose words have 32 bits each, before it is divided.
  void decode(const Layout& layout, std::size_t device, const Block& block, std::uint8_t exponent,
              const std::uint32_t* sum, numerics::Order order, bool flagged);

  // The same for passes with packed words; `pass` is where the words of the pass begin.
  void write_seed(const Layout& layout, const Block& first, std::uint32_t* pass) const;
  void encode_packed(const Layout& layout, const Block& block, std::uint8_t exponent, std::uint32_t* pass);
  void decode_packed(const Layout& layout, std::size_t device, const Block& block, std::uint8_t exponent,
                     const std::uint32_t* pass, bool flagged);
  void encode_flags(const Layout& layout, const Block& block, std::uint32_t* pass);
  void decode_flags(const Layout& layout, std::size_t device, const Block& block, const std::uint32_t* pass);

 private:
  std::uint64_t first_element(const Block& block) const { return block.number * shape_.block_size(); }
  numerics::Rounding rounding(const Layout& layout, std::uint64_t stream, const Block& block) const;
  void dequantize(const Layout& layout, std::size_t device, const Block& block, std::uint8_t exponent, bool flagged);

  JobShape shape_;
  std::uint32_t worker_;
  const numerics::Codec& codec_;
  std::int32_t log2_devices_, log2_workers_;
  std::vector<std::uint32_t> words_;  // of one block
};

}  // namespace jaxina
