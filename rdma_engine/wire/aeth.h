// The syndrome in an acknowledgement's extended header (AETH): what the receiver of a reliable connection says about
// the packet that the acknowledgement names. InfiniBand Architecture Specification, 9.7.5.2.
#pragma once

#include <array>
#include <cstdint>

#include "rdma_engine/base/time.h"

namespace jaxina::roce {

enum class Answer : std::uint8_t {
  kAck,               // this packet and all before it have arrived
  kRnrNak,            // receiver not ready: no receive request is posted. All before it have arrived; try again later
  kSequenceError,     // NAK: this packet is missing. All before it have arrived
  kInvalidRequest,    // NAK: the receiver cannot execute it. This and all that follow end the connection
  kRemoteAccess,      // NAK: the key or the address allows no such access
  kRemoteOperation,   // NAK: the receiver could not complete it
  kInvalidRdRequest,  // NAK: only for a service that is not spoken here
  kReserved,
};
constexpr bool ends_connection(Answer answer) { return answer >= Answer::kInvalidRequest; }

struct Syndrome {
  Answer answer = Answer::kReserved;
  std::uint8_t value = 0;  // of kAck: credits; of kRnrNak: a timer's code. 5 bits
  bool operator==(const Syndrome&) const = default;
};

// The credits of a receiver that does not limit its sender with them.
inline constexpr std::uint8_t kUnlimitedCredits = 31;

constexpr Syndrome decode_syndrome(std::uint8_t byte) {
  const std::uint8_t value = byte & 0x1f;
  switch (byte >> 5) {
    case 0: return {Answer::kAck, value};
    case 1: return {Answer::kRnrNak, value};
    case 3: {
      constexpr std::uint8_t kCodes =
          static_cast<std::uint8_t>(Answer::kReserved) - static_cast<std::uint8_t>(Answer::kSequenceError);
      if (value >= kCodes) return {};
      return {static_cast<Answer>(static_cast<std::uint8_t>(Answer::kSequenceError) + value), 0};
    }
    default: return {};
  }
}

// Of anything but kReserved.
constexpr std::uint8_t encode_syndrome(const Syndrome& syndrome) {
  switch (syndrome.answer) {
    case Answer::kAck: return syndrome.value & 0x1f;
    case Answer::kRnrNak: return static_cast<std::uint8_t>(0x20 | (syndrome.value & 0x1f));
    default:
      return static_cast<std::uint8_t>(0x60 + static_cast<std::uint8_t>(syndrome.answer) -
                                       static_cast<std::uint8_t>(Answer::kSequenceError));
  }
}

// How long a sender waits after an RNR NAK with this code.
constexpr Nanoseconds rnr_delay(std::uint8_t code) {
  constexpr std::array<std::int32_t, 32> kTensOfMicroseconds = {
      65536, 1,   2,   3,   4,    6,    8,    12,   16,   24,   32,   48,    64,    96,    128,   192,
      256,   384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152};
  return Nanoseconds{kTensOfMicroseconds[code & 0x1f]} * 10'000;
}

}  // namespace jaxina::roce
