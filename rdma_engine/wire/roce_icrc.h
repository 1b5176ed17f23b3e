// The invariant CRC (ICRC) at the end of every RoCEv2 packet over IPv4: how to compute it, and how to check it from
// user space. It covers everything that routers do not change: most of the IP header (with identification and DF), the
// UDP header without its checksum, and all that follows.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace jaxina::roce {

// The fields of the IP and UDP headers that the ICRC covers, except the length. Addresses are four bytes in network
// order.
struct Flow {
  std::array<std::uint8_t, 4> source{}, destination{};
  std::uint16_t source_port = 0, destination_port = 0;
  bool operator==(const Flow&) const = default;
};

// The covered fields of the IP header that a UDP socket cannot see.
struct Identification {
  std::uint16_t id = 0;
  bool dont_fragment = true;
  bool operator==(const Identification&) const = default;
};

// Computes the ICRC. `covered` is the UDP payload without the ICRC itself: from the BTH, which must be there, to the
// pad. store_icrc() stores it with its low byte first.
std::uint32_t icrc(const Flow& flow, const Identification& identification, std::span<const std::uint8_t> covered);
void store_icrc(std::uint32_t icrc, std::uint8_t* out);

// Checks the ICRC of packets whose identification is not known, because a socket does not deliver it. CRCs are linear,
// so the ICRC and all other bytes determine the 32 bits that the IP header must have had as identification, flags and
// fragment offset. The check accepts the packet if flags and offset are those of an unfragmented packet: DF or nothing.
// So 15 of the ICRC's 32 bits still check something, and one of 32768 damaged packets passes. Linux checks the UDP
// checksum before, if the sender set it.
class BlindIcrcCheck {
 public:
  // Returns what the identification must have been, or nothing if no identification explains this ICRC.
  std::optional<Identification> explain(const Flow& flow, std::span<const std::uint8_t> covered, std::uint32_t icrc);

 private:
  using Matrix = std::array<std::uint32_t, 32>;  // the image of each bit
  struct Known {
    std::size_t bytes = 0;
    Matrix unwinding{};
  };
  // Runs the CRC register backwards over this many zero bytes.
  std::uint32_t unwind(std::uint32_t difference, std::size_t bytes);

  // A cache of matrices by length, since a path uses few packet lengths. A new length costs a bounded amount more, so a
  // sender of ever new lengths cannot slow the receiver down much.
  static constexpr std::size_t kKnown = 4;
  std::array<Known, kKnown> known_;
  std::size_t next_known_ = 0;
  std::size_t unknown_bytes_ = 0;  // the latest length that was not in the cache
};

}  // namespace jaxina::roce
