// How workers and the switch speak: in datagrams or in RDMA messages. All else of a simulation is the same for both.
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

// A worker's end, for one incarnation of its job.
class WorkerEnd {
 public:
  virtual ~WorkerEnd() = default;
  virtual Worker& worker() = 0;

  // Takes packets to the switch; `packet` has bytes, size and what its origin says of its pass.
  class Output {
   public:
    virtual ~Output() = default;
    virtual void send(Packet& packet) = 0;
  };
  // Sends the next pass, if there is one.
  virtual std::optional<Pass> send_next(Nanoseconds now, Output& output) = 0;

  enum class Kind : std::uint8_t {
    kResult,   // a pass is complete
    kStale,    // of no use any more, or damaged by what came later
    kPending,  // waits for other workers
    kRefused,  // final: header.code is a wire::Refusal
    kAborted,  // final: header.code is an ErrorCode, the payload a sentence
  };
  struct Reply {
    Kind kind;
    wire::Header header = {};                    // of what is neither result nor stale
    std::span<const std::uint8_t> payload = {};  // likewise
  };
  // Whether packets reach its memory while its process is stopped, as a network card's do; else they stay in a buffer.
  virtual bool has_network_card() const = 0;
  // Takes in a packet, which stays until next_reply() has nothing more.
  virtual void arrive(const Packet& packet) = 0;
  // Of what has arrived and was sound, for this worker and whole; `origin` becomes that of the packet that completed
  // it.
  virtual std::optional<Reply> next_reply(Nanoseconds now, Origin& origin) = 0;
};

// The switch, and what it and its workers must know of each other.
class Protocol {
 public:
  class Output {
   public:
    virtual ~Output() = default;
    virtual void send(std::uint16_t host, std::span<const std::uint8_t> packet) = 0;
  };
  virtual ~Protocol() = default;

  // Null if there is a job of that id already. The counters stay where they are until the job is removed.
  virtual const Counters* add(const JobSpec& spec) = 0;
  virtual void remove(std::uint32_t job) = 0;
  virtual void abort(std::uint32_t job, const Status& reason, Output& output) = 0;
  // The end of a worker of a job that was added.
  virtual std::unique_ptr<WorkerEnd> join(const JobSpec& spec, std::uint32_t worker, std::uint16_t host,
                                          const JobPlan& plan) = 0;

  virtual void on_packet(const Packet& packet, Output& output) = 0;
  virtual void on_overflow() = 0;
  // Of packets that belong to no job here.
  virtual const Counters& strangers() const = 0;
  // Whether every packet that comes is counted as one thing or another. Parts of messages are not.
  virtual bool accounts_for_packets() const = 0;

  // What the trace says of a packet.
  struct Told {
    std::uint32_t slot;  // or Trace::kEverySlot
    std::string text;
  };
  virtual std::optional<Told> describe(const Packet& packet) const = 0;
};

std::unique_ptr<Protocol> make_datagram_protocol();
std::unique_ptr<Protocol> make_message_protocol(Random& random);

// A host as the aggregator's Address.
Address address_of(std::uint16_t host);
std::uint16_t host_at(const Address& address);

}  // namespace jaxina::sim
