// jaxina's datagram: its layout, and how to write and parse it. All fields are big-endian. p4/ parses the same layout.
//
//   0      2       3      4        8         16       18     20      24            28      30          31      32
//   | magic | version | kind | job  | secret  | worker | slot | epoch | fingerprint | words | exponents | code | crc32
//   | | exponent bytes, padded to 4 | words x 32 bit |
//
// The upper two bits of `words` are the format.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace jaxina::wire {

inline constexpr std::uint16_t kMagic = 0x4a58;  // "JX"
inline constexpr std::uint8_t kVersion = 1;
inline constexpr std::uint16_t kAllWorkers = 0xffff;  // the `worker` field of a multicast result

enum class Kind : std::uint8_t {
  kUpdate = 1,    // worker -> aggregator: one pass of one slot
  kResult = 2,    // aggregator -> workers: the completed slot
  kPending = 3,   // aggregator -> worker: "your update is counted"; payload: bitmap of the workers seen so far
  kRefused = 4,   // aggregator -> worker: the update cannot be accepted; `code` is a Refusal
  kAbort = 5,     // aggregator -> workers: the job has ended; `code` is an ErrorCode, payload: a UTF-8 sentence
  kCombined = 6,  // switch -> server: the sum of a group's updates; `worker` is kFirstGroup plus the group's number
};

// Group numbers of kCombined are 0 to kMaxGroups - 1.
inline constexpr std::uint16_t kFirstGroup = 0xff00;
inline constexpr std::uint32_t kMaxGroups = 0xff;

// The `code` of a kUpdate or kCombined in a job whose updates switches may combine: what they may do with it, and
// perhaps kMarked. In other jobs it is 0.
enum class Transmission : std::uint8_t {
  kFirst = 0,       // it may claim an entry
  kAgain = 1,       // it may only join one
  kUncombined = 2,  // they send it on as it is
  kDirect = 3,      // the worker has sent it to the server, and not through them
};

enum class Refusal : std::uint8_t {
  kUnknownJob = 1,  // no such job, or the secret is not this job's
  kAhead = 2,       // an epoch the slot cannot have reached: the aggregator has lost its state
};

// What the words of a pass are. Narrow words lie one after the other in 32-bit words, in network byte order. Two words
// in front of them are the seed with which the sum is rounded, or 0 to round it to nearest.
enum class Format : std::uint8_t {
  kInt32 = 0,  // added modulo 2^32
  kInt16 = 1,  // narrow: added, divided by 2^ceil(log2 workers), rounded
  kInt8 = 2,   // the same
  kFlags = 3,  // ored: 2 bits for each element of narrow words, the lower for +Inf, the upper for -Inf
};
inline constexpr Format kFormats[] = {Format::kInt32, Format::kInt16, Format::kInt8, Format::kFlags};
inline constexpr std::size_t kSeedWords = 2;
constexpr bool is_narrow(Format format) { return format == Format::kInt16 || format == Format::kInt8; }
// How many narrow words a pass of so many 32-bit words has, with what fills up the last of these.
constexpr std::size_t narrow_elements(Format format, std::size_t words) {
  return (words - kSeedWords) * (format == Format::kInt16 ? 2 : 4);
}

// Flags in the `code` of a kResult. The aggregator's receive buffer has overflowed since the job's last result.
// Switches that cannot detect this send 0.
inline constexpr std::uint8_t kOverflowed = 1;
// Also in the `code` of a kPending. An update of the pass came kDirect, so the switches on the way cannot combine the
// pass any more: its other workers must not leave it to them either. All workers see the same, so they can change their
// way together.
inline constexpr std::uint8_t kCameDirectly = 2;
// In the `code` of a kPending. A second transmission of the pass came as it is, so no switch had an entry for it. An
// entry that others of its workers have claimed since waits for it in vain.
inline constexpr std::uint8_t kCameAlone = 4;

// A flag in the `code` of a kUpdate, kCombined or kResult: a queue has formed at a port that the packet went through. A
// switch sets it. A server repeats it in the job's next result.
inline constexpr std::uint8_t kMarked = 0x80;

constexpr bool is_marked(std::uint8_t code) { return (code & kMarked) != 0; }
// What switches may do with an update that has this code.
constexpr Transmission transmission_of(std::uint8_t code) {
  constexpr auto direct = static_cast<std::uint8_t>(Transmission::kDirect);
  const auto number = static_cast<std::uint8_t>(code & ~kMarked);
  return static_cast<Transmission>(number < direct ? number : direct);
}

std::string_view to_string(Kind kind);

// Whether an aggregator sends it to workers.
constexpr bool is_reply(Kind kind) { return kind != Kind::kUpdate && kind != Kind::kCombined; }

// A parsed header in host byte order. The wire form below has 36 bytes.
struct Header {
  Kind kind = Kind::kUpdate;
  std::uint32_t job = 0;
  std::uint64_t secret = 0;
  std::uint16_t worker = 0;
  std::uint16_t slot = 0;
  std::uint32_t epoch = 0;
  std::uint32_t fingerprint = 0;
  std::uint16_t words = 0;     // 32-bit words of data, at most kMaxWords
  std::uint8_t exponents = 0;  // exponent bytes of the slot's next chunk
  std::uint8_t code = 0;
  Format format = Format::kInt32;
};

struct HeaderBytes {
  std::uint8_t magic[2], version, kind, job[4], secret[8], worker[2], slot[2], epoch[4], fingerprint[4], words[2],
      exponents, code, crc[4];
};
static_assert(sizeof(HeaderBytes) == 36 && alignof(HeaderBytes) == 1);

inline constexpr std::size_t kHeaderSize = sizeof(HeaderBytes);

constexpr std::size_t padded(std::size_t bytes) { return (bytes + 3) & ~std::size_t{3}; }
constexpr std::size_t packet_size(std::size_t words, std::size_t exponents) {
  return kHeaderSize + padded(exponents) + 4 * words;
}

// Limits of a chunk. They ensure that a packet fits a UDP datagram and that its counts fit the fields above.
inline constexpr std::size_t kMaxBlocksPerChunk = 64;
inline constexpr std::size_t kMaxPacketSize = 65507;
inline constexpr std::size_t kMaxWords = 0x3fff;  // the field's other two bits are the format

// Views into a packet's payload.
inline std::uint8_t* exponents_of(std::uint8_t* packet) { return packet + kHeaderSize; }
inline const std::uint8_t* exponents_of(const std::uint8_t* packet) { return packet + kHeaderSize; }
inline std::uint32_t* words_of(std::uint8_t* packet, std::size_t exponents) {
  return reinterpret_cast<std::uint32_t*>(packet + kHeaderSize + padded(exponents));
}
inline const std::uint32_t* words_of(const std::uint8_t* packet, std::size_t exponents) {
  return reinterpret_cast<const std::uint32_t*>(packet + kHeaderSize + padded(exponents));
}

// Writes the header to packet[0..36), zeroes the padding of the exponents and sets the CRC. The payload must be in
// place, because the CRC covers it. `size` is the whole packet's: packet_size(words, exponents), or for kPending and
// kAbort the header's size plus the payload's. Without a CRC the field is 0, for packets that something else protects.
void seal(const Header& header, std::uint8_t* packet, std::size_t size, bool with_crc = true);

enum class ParseResult : std::uint8_t { kOk, kTruncated, kForeign, kBadLength, kCorrupt };
std::string_view to_string(ParseResult result);

// The job that a packet names, which is not checked yet; nothing if the packet is too short to have a header.
std::optional<std::uint32_t> job_of(std::span<const std::uint8_t> packet);

// Whether parse() also accepts a CRC of 0. Packet processors cannot compute a CRC over the words they add.
enum class Checksum : std::uint8_t {
  kRequired,
  kOptional,
  kOptionalInSums,  // only in a kCombined
};

// Checks magic, version, kind, length and CRC, and fills `header`. Never reads outside `packet`.
ParseResult parse(std::span<const std::uint8_t> packet, Header& header, Checksum checksum = Checksum::kRequired);

}  // namespace jaxina::wire
