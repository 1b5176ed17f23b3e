// Combiner: a switch that combines updates on their way to the jobs' servers, as in ATP (Lao et al., NSDI 2021), with
// the rule of docs/atp.md. It sends upstream either a packet as it came, or the sum of all its children. The servers'
// replies pass through it to the workers. It is sans-IO: no sockets, threads or clocks, and no allocation while packets
// flow. Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>

#include "rdma_engine/combiner/combined_job.h"
#include "rdma_engine/combiner/entry_table.h"
#include "rdma_engine/combiner/phantom_queues.h"
#include "rdma_engine/datagrams/packet_output.h"
#include "rdma_engine/numerics/codec.h"
#include "rdma_engine/wire/packet.h"

namespace jaxina {

// Each address has a port of its own.
inline Address own_port(const Address& address) { return address; }

struct CombinerOptions {
  EntryTableSize table;
  // An entry may be taken from its pass after this time: longer than a pass takes on a busy network, and shorter than
  // the longest timeout of a worker.
  Nanoseconds lifetime = 200'000'000;
  // For experiments: this share of passes, in units of 1 / 65536, is sent on without being combined.
  std::uint32_t share_sent_on = 0;
  // Updates and results that are sent while their port has a queue are marked.
  PhantomQueueOptions queues = {};
  PortOf port_of = own_port;
};

class Combiner {
 public:
  explicit Combiner(const CombinerOptions& options, const numerics::Codec& codec = numerics::codec());

  // Adds a job. Returns false if there is a job with the same id.
  bool add(std::unique_ptr<CombinedJob> job);
  // Frees a job's entries, removes the job and returns it; null if there was none.
  std::unique_ptr<CombinedJob> remove(std::uint32_t job);
  bool has_jobs() const { return !jobs_.empty(); }
  // Null if there is no such job.
  const CombinedJob* find(std::uint32_t job) const;

  // Processes one datagram of a job that was added, which must be aligned to 4 bytes.
  void on_packet(std::span<const std::uint8_t> packet, const Address& from, Nanoseconds now, PacketOutput& output);

  // The receive buffer overflowed. The next result of each job will say so.
  void on_overflow() { ++overflows_; }

  std::uint32_t entries() const { return table_.size().entries; }
  // The number of entries that passes of the job have now, or of all jobs.
  std::size_t entries_held(std::uint32_t job, Nanoseconds now) const;
  std::size_t entries_held(Nanoseconds now) const;
  // Counts packets that belong to no job here.
  const Counters& without_job() const { return without_job_; }

 private:
  struct Registration {
    std::uint32_t number;  // so that a job's entries are not taken for those of an earlier job with the same id
    std::unique_ptr<CombinedJob> job;
  };
  struct Arrival {
    const wire::Header& header;
    std::span<const std::uint8_t> packet;
    const Address& from;
    Nanoseconds now;
  };
  void on_update(Registration& registration, const Arrival& arrival, PacketOutput& output);
  void combine(Registration& registration, const Arrival& arrival, std::uint32_t child, PacketOutput& output);
  void on_reply(Registration& registration, const Arrival& arrival, PacketOutput& output);
  void send_on(CombinedJob& job, const Arrival& arrival, PacketOutput& output);
  void send_sum(CombinedJob& job, std::size_t entry, const Arrival& arrival, wire::Transmission transmission,
                PacketOutput& output);
  void send_to_all(CombinedJob& job, const Arrival& arrival, std::span<const std::uint8_t> packet,
                   PacketOutput& output);
  static PassId id_of(const Registration& registration, const wire::Header& header);
  static Address upstream(const CombinedJob& job, const Arrival& arrival);
  bool sends_on(const wire::Header& header) const;
  std::uint8_t mark(CombinedJob& job, std::uint8_t code, bool is_over) const;
  std::span<const std::uint8_t> with_code(const Arrival& arrival, std::uint8_t code);
  void send(CombinedJob& job, const Arrival& arrival, const Address& to, std::span<const std::uint8_t> packet,
            PacketOutput& output);

  CombinerOptions options_;
  const numerics::Codec& codec_;
  EntryTable table_;
  PhantomQueues queues_;
  std::unordered_map<std::uint32_t, Registration> jobs_;
  std::uint32_t registrations_ = 0;
  std::uint64_t overflows_ = 0;
  std::unique_ptr<std::uint8_t[]> copy_;  // of a packet, with another code
  Counters without_job_;
};

}  // namespace jaxina
