// A worker's state machine spoken in datagrams: seals the passes it wants sent, checks the replies and hands them on.
// Sans-IO, so that every transport of datagrams and the simulator share it. What a refusal or an abort means to the
// user is the transport's to say.
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
  wire::Checksum checksum = wire::Checksum::kRequired;  // in replies
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
  // Writes the next packet to send, if any, to `packet`: room for max_packet_size() bytes, aligned to 4.
  std::optional<Outgoing> next_packet(Nanoseconds now, std::uint8_t* packet);

  // The header of a sound packet from this worker's aggregator; nothing for any other packet, which changes nothing.
  std::optional<wire::Header> accept(std::span<const std::uint8_t> packet) const;

  enum class Reply : std::uint8_t {
    kResult,   // a pass is complete
    kStale,    // the result of a pass that was complete already, or that contradicts this worker's
    kPending,  // the payload is the bitmap of workers seen
    kRefused,  // final: header.code is a wire::Refusal
    kAborted,  // final: header.code is an ErrorCode, the payload a sentence
  };
  // Takes an accepted packet, aligned to 4.
  Reply on_reply(const wire::Header& header, const std::uint8_t* packet, Nanoseconds now);

 private:
  SessionConfig config_;
  Worker worker_;
};

}  // namespace jaxina
