// Session: a worker that speaks datagrams. It seals the passes that the worker state machine wants to send, and checks
// replies and passes them on. It is sans-IO, so every datagram transport and the simulator use it. The transport
// decides what a refusal or an abort means to the user. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "rdma_engine/wire/packet.h"
#include "rdma_engine/worker/worker.h"

namespace jaxina {

struct SessionConfig {
  std::uint32_t job = 0;
  std::uint64_t secret = 0;
  std::uint16_t worker = 0;  // this worker's index in [0, n)
  WorkerConfig stream;
  wire::Checksum checksum = wire::Checksum::kRequired;  // whether replies must have a checksum
};

class Session {
 public:
  explicit Session(const SessionConfig& config, const numerics::Codec& codec = numerics::codec())
      : config_(config), worker_(config.stream, codec) {}

  Worker& worker() { return worker_; }
  const Worker& worker() const { return worker_; }

  std::size_t max_packet_size() const { return config_.stream.shape.packet_size(); }

  struct Outgoing {
    Pass pass;
    std::size_t size;
  };
  // Writes the next packet to send, if any, to `packet`, which has room for max_packet_size() bytes and is aligned to
  // 4.
  std::optional<Outgoing> next_packet(Nanoseconds now, std::uint8_t* packet);

  // Returns the header if this is a valid packet from this worker's aggregator. Other packets change nothing.
  std::optional<wire::Header> accept(std::span<const std::uint8_t> packet) const;

  enum class Reply : std::uint8_t {
    kResult,   // a pass is complete
    kStale,    // the result of a pass that was complete already, or a result that contradicts this worker's pass
    kPending,  // the payload is the bitmap of the workers seen
    kRefused,  // final: header.code is a wire::Refusal
    kAborted,  // final: header.code is an ErrorCode, the payload is a sentence
  };
  // Processes an accepted packet, which must be aligned to 4 bytes.
  Reply on_reply(const wire::Header& header, const std::uint8_t* packet, Nanoseconds now);

 private:
  SessionConfig config_;
  Worker worker_;
};

}  // namespace jaxina
