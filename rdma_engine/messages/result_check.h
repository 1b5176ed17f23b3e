// ResultCheck: checks that a result in this worker's memory is intact and belongs to the expected pass. A late copy of
// an older result can overwrite a newer one while it is read, and nothing else would notice.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "rdma_engine/messages/pass_message.h"
#include "rdma_engine/numerics/linear_check.h"
#include "rdma_engine/worker/layout.h"

namespace jaxina::roce {

// The content of the check words, in host order: the checksums of the pass's words, mixed with a number that identifies
// the pass.
struct ResultCheck {
  numerics::LinearSums sums;

  static ResultCheck of(const std::uint32_t* words, std::size_t count, std::uint32_t fingerprint, std::uint32_t epoch,
                        std::uint32_t workers) {
    const std::uint32_t name = mix(fingerprint, epoch);
    const numerics::LinearSums sums = numerics::linear_sums(words, count);
    return {{sums.plain + workers * name, sums.weighted + workers * mix(name, epoch)}};
  }
  // How many workers' contributions to a pass these words and this check hold: 1 to `most`, or nothing if they are no
  // sum of such.
  std::optional<std::uint32_t> contributions(const std::uint32_t* words, std::size_t count, std::uint32_t fingerprint,
                                             std::uint32_t epoch, std::uint32_t most) const {
    for (std::uint32_t workers = 1; workers <= most; ++workers) {
      if (of(words, count, fingerprint, epoch, workers) == *this) return workers;
    }
    return std::nullopt;
  }
  // The check of a result, which also covers the exponents that come with the words.
  ResultCheck with(std::span<const std::uint8_t> exponents) const {
    return {{sums.plain + digest(exponents), sums.weighted}};
  }
  // The aggregator calls this on the words of a complete pass, which include the sums of the workers' checks. It adds
  // the digest of the exponents. The workers cannot do that: exponents are maxima, so no worker knows them in advance.
  static void seal(std::span<std::uint32_t> words, std::span<const std::uint8_t> exponents) {
    words[words.size() - kCheckWords] += digest(exponents);
  }
  // Sums of packed words are not the sums of these words. So the aggregator takes the checksums of each update's words
  // out of the check, and adds those of the result's.
  static void seal_packed(std::span<const std::uint32_t> words, std::int32_t sign, std::uint32_t* check) {
    const numerics::LinearSums sums = numerics::linear_sums(words.data(), words.size());
    check[0] += static_cast<std::uint32_t>(sign) * sums.plain;
    check[1] += static_cast<std::uint32_t>(sign) * sums.weighted;
  }
  // read and write convert from and to two words of a message, in network byte order.
  static ResultCheck read(const std::uint32_t* words) {
    return {{to_or_from_big_endian(words[0]), to_or_from_big_endian(words[1])}};
  }
  void write(std::uint32_t* words) const {
    words[0] = to_or_from_big_endian(sums.plain);
    words[1] = to_or_from_big_endian(sums.weighted);
  }
  bool operator==(const ResultCheck&) const = default;

 private:
  static constexpr std::uint32_t to_or_from_big_endian(std::uint32_t word) {
    return std::endian::native == std::endian::little ? __builtin_bswap32(word) : word;
  }
};
static_assert(sizeof(ResultCheck) == 4 * kCheckWords);

}  // namespace jaxina::roce
