// Pass, Result and related types: how the worker's parts and its transport describe the passes of a stream and their
// results.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "rdma_engine/numerics/codec.h"
#include "rdma_engine/wire/packet.h"

namespace jaxina {

class Layout;

enum class Phase : std::uint8_t { kLookAhead, kFlags, kData };

// One transmission of one pass.
struct Pass {
  std::uint16_t slot;
  std::uint32_t epoch;
  std::uint32_t fingerprint;
  std::uint16_t words;
  std::uint8_t exponents;
  Phase phase;
  wire::Format format = wire::Format::kInt32;
  std::uint32_t sent_before;  // how often it was sent already
  bool retransmission() const { return sent_before > 0; }
};

// A completed pass as it came from the aggregator. The pointers need to be valid only during on_result(), except for
// words in TransportMemory::results.
struct Result {
  std::uint16_t slot;
  std::uint32_t epoch;
  std::uint32_t fingerprint;
  std::size_t words;
  std::size_t exponents;
  const std::uint32_t* word_data;
  const std::uint8_t* exponent_data;
  numerics::Order order;
  wire::Format format = wire::Format::kInt32;
  bool marked = false;  // a queue has formed on its way, or on the way of an update before it
};

// A pass's position in the stream. It is the same for all workers.
struct Place {
  std::uint64_t collective = 0;  // sequence number
  std::size_t chunk = 0;
  Phase phase = Phase::kLookAhead;
  auto operator<=>(const Place&) const = default;
};

// What a result tells about its announced chunk: the chunk whose exponents the pass carried.
struct Announced {
  bool non_finite = false;   // the chunk has NaN or Inf
  std::uint32_t digest = 0;  // of the chunk's exponents
};

// What a slot's current pass carries.
struct Content {
  Place place;
  const Layout* layout = nullptr;        // of the collective
  std::optional<std::size_t> announced;  // the chunk whose exponents the pass carries, if any
  std::uint16_t slot = 0;
};

}  // namespace jaxina
