// Protocol and WorkerEnd: how workers and the switch communicate, with datagrams or RDMA messages. The rest of a
// simulation is the same for both.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "rdma_engine/base/address.h"
#include "rdma_engine/base/counters.h"
#include "rdma_engine/shape/job_spec.h"
#include "rdma_engine/sim/network.h"
#include "rdma_engine/wire/packet.h"
#include "rdma_engine/worker/worker.h"

namespace jaxina::sim {

// A worker's end of the protocol, for one incarnation of its job.
class WorkerEnd {
 public:
  virtual ~WorkerEnd() = default;
  virtual Worker& worker() = 0;

  // Sends packets to the switch. `packet` has its bytes, its size and the pass fields of its origin.
  class Output {
   public:
    virtual ~Output() = default;
    virtual void send(Packet& packet) = 0;
  };
  // Sends the next pass, if there is one.
  virtual std::optional<Pass> send_next(Nanoseconds now, Output& output) = 0;

  enum class Kind : std::uint8_t {
    kResult,   // a pass is complete
    kStale,    // of an earlier pass, or damaged by something that came later
    kPending,  // the pass waits for other workers
    kRefused,  // final: header.code is a wire::Refusal
    kAborted,  // final: header.code is an ErrorCode, the payload a sentence
  };
  struct Reply {
    Kind kind;
    wire::Header header = {};                    // only for notices
    std::span<const std::uint8_t> payload = {};  // only for notices
  };
  // Whether packets reach the worker's memory while its process is paused, as with a NIC. Otherwise they wait in a
  // buffer.
  virtual bool has_network_card() const = 0;
  // Delivers a packet. The packet stays valid until next_reply() returns nothing.
  virtual void arrive(const Packet& packet) = 0;
  // The next reply from packets that have arrived and were valid, complete and for this worker. Sets `origin` to that
  // of the packet that completed the reply.
  virtual std::optional<Reply> next_reply(Nanoseconds now, Origin& origin) = 0;
};

// The switch, and the connection of workers to it.
class Protocol {
 public:
  class Output {
   public:
    virtual ~Output() = default;
    virtual void send(std::uint16_t host, std::span<const std::uint8_t> packet) = 0;
  };
  virtual ~Protocol() = default;

  // Adds a job and returns its counters, which stay valid until the job is removed. Null if there is a job with the
  // same id.
  virtual const Counters* add(const JobSpec& spec) = 0;
  virtual void remove(std::uint32_t job) = 0;
  virtual void abort(std::uint32_t job, const Status& reason, Output& output) = 0;
  // Makes the end of a worker of a job that was added.
  virtual std::unique_ptr<WorkerEnd> join(const JobSpec& spec, std::uint32_t worker, std::uint16_t host,
                                          const JobPlan& plan) = 0;

  virtual void on_packet(const Packet& packet, Output& output) = 0;
  virtual void on_overflow() = 0;
  // Counts packets that belong to no job here.
  virtual const Counters& without_job() const = 0;
  // Whether every arriving packet is counted in some way. Parts of messages are not.
  virtual bool accounts_for_packets() const = 0;

  // A packet's description in the trace.
  struct Description {
    std::uint32_t slot;  // or Trace::kEverySlot
    std::string text;
  };
  virtual std::optional<Description> describe(const Packet& packet) const = 0;
};

std::unique_ptr<Protocol> make_datagram_protocol();
std::unique_ptr<Protocol> make_message_protocol(Random& random);

// The aggregator's Address of a host.
Address address_of(std::uint16_t host);
std::uint16_t host_at(const Address& address);

}  // namespace jaxina::sim
