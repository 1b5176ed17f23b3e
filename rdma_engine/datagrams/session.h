// Session: a worker that speaks datagrams. It seals the passes that the worker state machine wants to send, and checks
// replies and passes them on. It is sans-IO, so every datagram transport and the simulator use it. The transport
// decides what a refusal or an abort means to the user. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "rdma_engine/datagrams/switch_route.h"
#include "rdma_engine/wire/packet.h"
#include "rdma_engine/worker/worker.h"

namespace jaxina {

struct SessionConfig {
  std::uint32_t job = 0;
  std::uint64_t secret = 0;
  std::uint16_t worker = 0;  // this worker's index in [0, n)
  WorkerConfig stream;
  std::uint32_t switches = 0;  // that may combine its updates on their way: slot i goes through switch i mod this
  wire::Checksum checksum = wire::Checksum::kRequired;  // whether replies must have a checksum
  bool writes_crc = true;                               // false: encryption protects the packets
};

class Session {
 public:
  explicit Session(const SessionConfig& config, const numerics::Codec& codec = numerics::codec())
      : config_(config),
        worker_(as_sent(config), codec),
        routes_(config.switches, SwitchRoute(config.stream.shape.slots())) {}

  Worker& worker() { return worker_; }
  const Worker& worker() const { return worker_; }

  std::size_t max_packet_size() const { return config_.stream.shape.packet_size(); }

  struct Outgoing {
    Pass pass;
    std::size_t size;
    // Where to send it: kDirect to the slot's server, else to the slot's switch. Without switches: to the aggregator.
    wire::Transmission transmission;
  };
  // Writes the next packet to send, if any, to `packet`, which has room for max_packet_size() bytes and is aligned to
  // 4.
  std::optional<Outgoing> next_packet(Nanoseconds now, std::uint8_t* packet);

  // Returns the header if this is a valid packet from this worker's aggregator. Other packets change nothing.
  std::optional<wire::Header> accept(std::span<const std::uint8_t> packet) const;

  enum class Reply : std::uint8_t {
    kResult,   // a pass is complete
    kStale,    // the result of a pass that was complete already, or a result that contradicts this worker's pass
    kPending,  // the payload is the bitmap of the workers seen: maybe not of this one
    kRefused,  // final: header.code is a wire::Refusal
    kAborted,  // final: header.code is an ErrorCode, the payload is a sentence
  };
  // Processes an accepted packet, which must be aligned to 4 bytes.
  Reply on_reply(const wire::Header& header, std::span<const std::uint8_t> packet, Nanoseconds now);
  // The same for a packet that came from the slot's switch. A switch that does not know the job is no failure.
  Reply on_switch_reply(const wire::Header& header, std::span<const std::uint8_t> packet, Nanoseconds now);

 private:
  static WorkerConfig as_sent(const SessionConfig& config) {
    WorkerConfig stream = config.stream;
    stream.index = config.worker;
    stream.packing = Packing::kPacked;
    return stream;
  }
  SwitchRoute& route(std::uint16_t slot) { return routes_[slot % routes_.size()]; }
  void on_pending(const wire::Header& header, std::span<const std::uint8_t> notice, Nanoseconds now);
  // Whether a pending notice says that this worker's update is counted.
  bool is_counted(std::span<const std::uint8_t> notice) const;

  SessionConfig config_;
  Worker worker_;
  std::vector<SwitchRoute> routes_;  // per switch
};

}  // namespace jaxina
