// Two peers of a reliable connection over a network that loses, repeats, delays and damages packets.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <optional>
#include <random>
#include <vector>

#include "rdma_engine/transport/rc/requester.h"
#include "rdma_engine/transport/rc/responder.h"
#include "rdma_engine/wire/roce_icrc.h"

namespace jaxina::rc {

using Bytes = std::vector<std::uint8_t>;

inline constexpr std::uint64_t kMemoryAt = 0x7000;  // where the receiver's memory pretends to be
inline constexpr std::uint32_t kKey = 0xbeef;

// The bytes of a packet, from the BTH to the ICRC. All packets are of one flow.
inline Bytes bytes_of(const roce::Headers& headers, std::span<const std::uint8_t> payload = {}) {
  Bytes bytes(roce::header_size(headers.opcode) + payload.size() + headers.pad + roce::kIcrcSize);
  roce::write(headers, bytes.data());
  std::copy(payload.begin(), payload.end(),
            bytes.begin() + static_cast<std::ptrdiff_t>(roce::header_size(headers.opcode)));
  const std::span<const std::uint8_t> covered(bytes.data(), bytes.size() - roce::kIcrcSize);
  roce::store_icrc(roce::icrc({}, {}, covered), bytes.data() + covered.size());
  return bytes;
}

inline Bytes bytes_of(const Requester::Outgoing& packet) {
  const std::span<const std::uint8_t> payload = packet.request.write.head.subspan(packet.offset, packet.size);
  return bytes_of(packet.headers, payload);
}

// A packet whose ICRC is right, or nothing.
inline bool is_intact(const Bytes& bytes, roce::Packet& packet) {
  return roce::parse(bytes, packet, roce::Service::kReliable) == roce::ParseResult::kOk &&
         roce::icrc({}, {}, std::span(bytes).first(bytes.size() - roce::kIcrcSize)) == packet.icrc;
}

// The receiving side with its memory.
class Receiver {
 public:
  Receiver(const ResponderConfig& config, std::size_t bytes) : responder_(config), memory_(bytes) {}

  Responder& responder() { return responder_; }
  const Bytes& memory() const { return memory_; }
  bool take(const roce::Packet& packet) {
    return responder_.on_request(packet, [this](const roce::Headers& h) -> std::uint8_t* {
      const std::uint64_t offset = h.address - kMemoryAt;
      const bool inside = h.address >= kMemoryAt && offset <= memory_.size() && h.length <= memory_.size() - offset;
      return inside && h.rkey == kKey ? memory_.data() + offset : nullptr;
    });
  }

 private:
  Responder responder_;
  Bytes memory_;
};

struct Faults {
  double loss = 0, duplication = 0, reordering = 0, damage = 0;
  Nanoseconds delay = 1'000, longest_extra = 50'000;
};

// One direction.
class FaultyWire {
 public:
  FaultyWire(const Faults& faults, std::mt19937_64& random) : faults_(faults), random_(random) {}

  void send(const Bytes& packet, Nanoseconds now) {
    if (happens(faults_.loss)) return;
    const bool twice = happens(faults_.duplication);
    for (int copy = 0; copy < 1 + twice; ++copy) {
      Bytes bytes = packet;
      if (happens(faults_.damage)) bytes[random_() % bytes.size()] ^= static_cast<std::uint8_t>(1 + random_() % 255);
      const bool late = copy == 1 || happens(faults_.reordering);
      const Nanoseconds extra = late ? static_cast<Nanoseconds>(random_() % 1000) * faults_.longest_extra / 1000 : 0;
      flying_.emplace(now + faults_.delay + extra, std::move(bytes));
    }
  }
  std::optional<Nanoseconds> next_arrival() const {
    return flying_.empty() ? std::nullopt : std::optional(flying_.begin()->first);
  }
  Bytes arrive() {
    Bytes bytes = std::move(flying_.begin()->second);
    flying_.erase(flying_.begin());
    return bytes;
  }

 private:
  bool happens(double share) { return std::uniform_real_distribution<>()(random_) < share; }

  Faults faults_;
  std::mt19937_64& random_;
  std::multimap<Nanoseconds, Bytes> flying_;
};

}  // namespace jaxina::rc
