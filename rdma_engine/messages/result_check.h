// Whether a result that was written into this worker's memory is of one piece, and of the pass it is taken for. A late
// copy of an older result can be written over a newer one while that is read, and nobody else would notice.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "rdma_engine/messages/pass_message.h"
#include "rdma_engine/numerics/linear_check.h"
#include "rdma_engine/worker/layout.h"

namespace jaxina::roce {

// What the words of a check say, in host order: the sums of the pass's words, and which pass it is.
struct ResultCheck {
  numerics::LinearSums sums;

  static ResultCheck of(const std::uint32_t* words, std::size_t count, std::uint32_t fingerprint, std::uint32_t epoch,
                        std::uint32_t workers) {
    const std::uint32_t name = mix(fingerprint, epoch);
    const numerics::LinearSums sums = numerics::linear_sums(words, count);
    return {{sums.plain + workers * name, sums.weighted + workers * mix(name, epoch)}};
  }
  // As sealed with the exponents that come with the words.
  ResultCheck with(std::span<const std::uint8_t> exponents) const {
    return {{sums.plain + digest(exponents), sums.weighted}};
  }
  // What the aggregator does with the words of a pass that is complete, the sums of the checks among them. Exponents
  // are maxima, for which no worker can send a check along.
  static void seal(std::span<std::uint32_t> words, std::span<const std::uint8_t> exponents) {
    words[words.size() - kCheckWords] += digest(exponents);
  }
  // From and to two words of a message, in network order.
  static ResultCheck read(const std::uint32_t* words) { return {{turn(words[0]), turn(words[1])}}; }
  void write(std::uint32_t* words) const {
    words[0] = turn(sums.plain);
    words[1] = turn(sums.weighted);
  }
  bool operator==(const ResultCheck&) const = default;

 private:
  static constexpr std::uint32_t turn(std::uint32_t word) {
    return std::endian::native == std::endian::little ? __builtin_bswap32(word) : word;
  }
};
static_assert(sizeof(ResultCheck) == 4 * kCheckWords);

}  // namespace jaxina::roce
