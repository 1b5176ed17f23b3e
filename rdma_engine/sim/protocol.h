// Protocol and WorkerEnd: how workers and their aggregators communicate: with datagrams or RDMA messages, with one
// switch, with servers and switches on the way to them, or with each other through a switch that adds. The rest of a
// simulation is the same for all.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rdma_engine/aggregator/worker_set.h"
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

  // Sends packets. `packet` has its bytes, its size, its destination and the pass fields of its origin.
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
  // Delivers a packet. It stays valid until next_reply() returns nothing. The end ignores packets from strangers. A
  // network card that speaks a reliable transport answers at once.
  virtual void arrive(const Packet& packet, Nanoseconds now, Output& output) = 0;
  // When a network card has something to do by itself, whatever its process does; and does it.
  virtual std::optional<Nanoseconds> card_deadline() const { return std::nullopt; }
  virtual void on_card_tick(Nanoseconds now, Output& output) {
    (void)now;
    (void)output;
  }
  // The next reply from packets that have arrived and were valid, complete and for this worker. Sets `origin` to that
  // of the packet that completed the reply.
  virtual std::optional<Reply> next_reply(Nanoseconds now, Origin& origin) = 0;
};

// The nodes that are no workers: the switch, or switches and servers; and the connection of workers to them.
class Protocol {
 public:
  class Output {
   public:
    virtual ~Output() = default;
    virtual void send(std::uint16_t from, std::uint16_t to, std::span<const std::uint8_t> packet) = 0;
  };
  virtual ~Protocol() = default;

  // Adds a job whose workers run on `hosts`. Returns the counters of its aggregators, which stay valid until the job is
  // removed. Empty if there is a job with the same id.
  virtual std::vector<const Counters*> add(const JobSpec& spec, std::span<const std::uint16_t> hosts) = 0;
  virtual void remove(std::uint32_t job) = 0;
  // A node loses its memory of a job.
  virtual void lose(std::uint32_t job) { remove(job); }
  virtual void abort(std::uint32_t job, const Status& reason, Output& output) = 0;
  // Makes the end of a worker of a job that was added.
  virtual std::unique_ptr<WorkerEnd> join(const JobSpec& spec, std::uint32_t worker, std::uint16_t host,
                                          const JobPlan& plan) = 0;

  // Delivers a packet to the node packet.to.
  virtual void on_packet(const Packet& packet, Nanoseconds now, Output& output) = 0;
  // Switches on the way to servers lose their memory, or know all jobs again. The jobs go on.
  virtual void wipe_switches() {}
  virtual void restore_switches() {}
  // A sum that a switch has made of packets of several workers, if this packet is one: its set of workers.
  virtual const WorkerSet* combined(const Packet& packet) const {
    (void)packet;
    return nullptr;
  }
  // What switches have done that they must never do; empty if nothing.
  virtual std::string_view broken() const { return {}; }
  // The entries of switches that no rival could claim at this time.
  virtual std::size_t entries_held_after_lifetime(Nanoseconds now) const {
    (void)now;
    return 0;
  }
  virtual void on_overflow() = 0;
  // Of packets that belong to no job here, and of the switches on the way to servers.
  virtual Counters other_counters() const = 0;
  // Of a job at the switches on the way to servers.
  virtual Counters at_switches(std::uint32_t job) const {
    (void)job;
    return {};
  }
  // Whether every arriving packet is counted in some way. Parts of messages are not.
  virtual bool accounts_for_packets() const = 0;

  // A packet's description in the trace.
  struct Description {
    std::uint32_t slot;  // or Trace::kEverySlot
    std::string text;
  };
  virtual std::optional<Description> describe(const Packet& packet) const = 0;
};

// Where switches and servers are, besides kSwitch.
struct Nodes {
  std::vector<std::uint16_t> leaves;     // switches below kSwitch
  std::vector<std::uint16_t> switch_of;  // per host: the switch it is connected to
  std::vector<std::uint16_t> server_of;  // per host: the server that runs in its process; or else
  std::vector<std::uint16_t> servers;    // the servers on hosts of their own
};

std::unique_ptr<Protocol> make_datagram_protocol();
std::unique_ptr<Protocol> make_combining_protocol(const CombiningPlan& plan, const Nodes& nodes);
std::unique_ptr<Protocol> make_message_protocol(Random& random);
std::unique_ptr<Protocol> make_ring_protocol(Random& random, const Nodes& nodes);

// The aggregator's Address of a host.
Address address_of(std::uint16_t host);
std::uint16_t host_at(const Address& address);

}  // namespace jaxina::sim
