// NarrowBlocks: converts blocks whose words have 8 or 16 bits, between tensors in host memory and passes. It also adds
// what devices have produced from tensors of their own. wire_words.h has the arithmetic, wire::Format the form of
// packed words and flags.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "rdma_engine/numerics/codec.h"
#include "rdma_engine/worker/layout.h"
#include "rdma_engine/worker/narrow_rounding.h"
#include "rdma_engine/worker/pass.h"

namespace jaxina {

class NarrowBlocks {
 public:
  // `worker`: this worker's index, see NarrowRounding.
  NarrowBlocks(const JobShape& shape, std::uint32_t worker, const numerics::Codec& codec);

  const NarrowRounding& rounding() const { return rounding_; }

  // What each of the process's devices has produced for a block: where its packed words or flags begin. Empty if the
  // tensors are in host memory.
  using Produced = std::span<const std::uint32_t* const>;

  // Writes or adds this process's words of a block, each in 32 bits.
  void encode(const Layout& layout, const Block& block, std::uint8_t exponent, Produced produced, std::uint32_t* words,
              bool add);
  // Takes a sum whose words have 32 bits each, before it is divided. In memory that the workers share, each of them
  // divides it.
  void decode(const Layout& layout, std::size_t device, const Block& block, std::uint8_t exponent,
              const std::uint32_t* sum, numerics::Order order, bool flagged);

  // The same for passes with packed words; `pass` is where the words of the pass begin.
  void write_seed(const Layout& layout, const Block& first, std::uint32_t* pass) const;
  void encode_packed(const Layout& layout, const Block& block, std::uint8_t exponent, Produced produced,
                     std::uint32_t* pass);
  void decode_packed(const Layout& layout, std::size_t device, const Block& block, std::uint8_t exponent,
                     const std::uint32_t* pass, bool flagged);
  void encode_flags(const Layout& layout, const Block& block, Produced produced, std::uint32_t* pass);
  void decode_flags(const Layout& layout, std::size_t device, const Block& block, const std::uint32_t* pass);

 private:
  void dequantize(const Layout& layout, std::size_t device, const Block& block, std::uint8_t exponent, bool flagged);

  JobShape shape_;
  NarrowRounding rounding_;
  const numerics::Codec& codec_;
  std::vector<std::uint32_t> words_;  // of one block
};

}  // namespace jaxina
