// The invariant CRC at the end of every RoCEv2 packet over IPv4. It covers what routers do not change: the IP header
// with the identification and DF, the UDP header, and all that follows.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace jaxina::roce {

// What the ICRC covers of the IP and UDP headers beside the length. Addresses as four bytes in network order.
struct Flow {
  std::array<std::uint8_t, 4> source{}, destination{};
  std::uint16_t source_port = 0, destination_port = 0;
  bool operator==(const Flow&) const = default;
};

// The part of the IP header that a UDP socket cannot see.
struct Identification {
  std::uint16_t id = 0;
  bool dont_fragment = true;
  bool operator==(const Identification&) const = default;
};

// Over a UDP payload from the BTH, which must be there, to the pad: everything but the ICRC itself. To be stored with
// its low byte first.
std::uint32_t icrc(const Flow& flow, const Identification& identification, std::span<const std::uint8_t> covered);
void store_icrc(std::uint32_t icrc, std::uint8_t* out);

// Checks ICRCs of packets whose identification is not known, as a socket delivers them. CRCs are linear: from the ICRC
// and all other bytes follow the 32 bits that must stand where the IP header has identification and flags. The packet
// is taken if the flags are ones that a whole packet can have, DF or nothing. So 15 of the ICRC's 32 bits still check:
// a damaged packet passes once in 32768 times. Linux's own UDP checksum, where the sender sets it, is checked before.
class BlindIcrcCheck {
 public:
  // What the identification must have been; nothing if none explains this ICRC.
  std::optional<Identification> explain(const Flow& flow, std::span<const std::uint8_t> covered, std::uint32_t icrc);

 private:
  using Matrix = std::array<std::uint32_t, 32>;  // image of each bit
  struct Known {
    std::size_t bytes = 0;
    Matrix unwinding{};
  };
  // Undoes the CRC's register over so many zero bytes.
  std::uint32_t unwind(std::uint32_t difference, std::size_t bytes);

  // A path has few lengths of packets. Each new one costs more, but never much: who sends ever new ones gains nothing.
  static constexpr std::size_t kKnown = 4;
  std::array<Known, kKnown> known_;
  std::size_t next_known_ = 0;
  std::size_t unknown_bytes_ = 0;  // the latest length that was not known
};

}  // namespace jaxina::roce
