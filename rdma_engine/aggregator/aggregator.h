// The aggregator as a state machine: datagrams in, datagrams out. Sans-IO: no sockets, threads or clocks, and no
// allocation once a job is added. The software switch runs one per thread, the simulator runs the same class.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "rdma_engine/aggregator/slot.h"
#include "rdma_engine/errors.h"
#include "rdma_engine/numerics/codec.h"
#include "rdma_engine/wire/packet.h"

namespace jaxina {

// Where a datagram came from: a socket address for the switch, a number for the simulator. The aggregator only stores
// and compares it.
struct Address {
  std::array<std::uint8_t, 28> bytes{};  // holds a sockaddr_in6
  std::uint8_t size = 0;
  bool operator==(const Address&) const = default;
};

struct JobSpec {
  std::uint32_t job = 0;
  std::uint64_t secret = 0;
  std::uint32_t workers = 0;
  std::uint32_t slots = 0;
  std::uint32_t block_size = 0;
  std::uint32_t blocks_per_chunk = 0;
  std::uint32_t first_epoch = 0;  // of every slot's first pass; workers begin with 0, tests of the wrap do not
};

// What one version of a slot holds, in host byte order.
struct SlotContents {
  SlotVersion control;
  std::vector<std::uint8_t> exponents;
  std::vector<std::uint32_t> words;
};

// Why a packet changed nothing.
enum class Reject : std::uint8_t {
  kTruncated, kForeign, kBadLength, kCorrupt,  // wire::ParseResult
  kNotAnUpdate, kUnknownJob, kWrongSecret, kBadWorker, kBadSlot, kTooLarge,
  kStale, kAhead, kMismatch, kAborted,
  kCount
};
std::string_view to_string(Reject reject);

struct JobCounters {
  std::uint64_t updates = 0;          // accepted contributions
  std::uint64_t results = 0;          // completed passes
  std::uint64_t duplicates = 0;       // retransmissions that were counted already
  std::uint64_t packets_sent = 0;
  std::uint64_t bytes_received = 0;   // UDP payload
  std::uint64_t bytes_sent = 0;
};

class Aggregator {
 public:
  // Receives the datagrams to send. The bytes are valid only during the call.
  class Output {
   public:
    virtual ~Output() = default;
    virtual void send(const Address& to, std::span<const std::uint8_t> packet) = 0;
  };

  explicit Aggregator(const numerics::Codec& codec = numerics::codec());
  ~Aggregator();

  // Memory that the pools of all jobs together may take; anybody may ask for a job.
  static constexpr std::size_t kMaxPoolBytes = std::size_t{1} << 30;
  // kInvalidArgument, kTooManyWorkers, or kJobRejected if the id is in use or the pool exceeds what memory is left.
  Status add_job(const JobSpec& spec);
  void remove_job(std::uint32_t job);
  // From now on every update of the job is answered with the reason; workers heard from so far are told at once.
  void abort_job(std::uint32_t job, const Status& reason, Output& output);

  // One datagram; whatever it holds, only a valid update of a known job changes anything.
  void on_packet(std::span<const std::uint8_t> packet, const Address& from, Output& output);

  bool has_job(std::uint32_t job) const { return jobs_.contains(job); }
  const JobCounters* counters(std::uint32_t job) const;
  // Rejects that could be told to belong to a job are counted there too.
  using Rejects = std::array<std::uint64_t, static_cast<std::size_t>(Reject::kCount)>;
  const Rejects& rejects() const { return rejects_; }
  const Rejects* rejects(std::uint32_t job) const;
  // The workers that some incomplete pass of the job waits for.
  std::vector<std::uint32_t> missing(std::uint32_t job) const;
  // A copy of version `version` (0 or 1) of a slot; nothing if there is no such slot. For comparing aggregators.
  std::optional<SlotContents> inspect(std::uint32_t job, std::uint32_t slot, std::uint32_t version) const;

 private:
  struct Job;
  void apply(Job& job, const wire::Header& header, const std::uint8_t* packet, const Address& from, Output& output);
  void accept(Job& job, const wire::Header& header, const std::uint8_t* packet, bool first);
  void finish(Job& job, const wire::Header& header, Output& output);
  void end_mismatched(Job& job, const wire::Header& header, std::uint32_t other, const Address& from, Output& output);
  void end(Job& job, const Status& reason, Output& output);
  void reply_refused(const wire::Header& header, wire::Refusal refusal, const Address& to, Output& output);
  void reply_aborted(Job& job, std::uint16_t slot, const Address& to, Output& output);
  void reply_pending(Job& job, const wire::Header& header, const Address& to, Output& output);
  void send(Job& job, const Address& to, std::span<const std::uint8_t> packet, Output& output);
  void reject(Reject reason, Job* job);

  const numerics::Codec& codec_;
  std::unordered_map<std::uint32_t, std::unique_ptr<Job>> jobs_;
  Rejects rejects_{};
  std::size_t pool_bytes_ = 0;
};

}  // namespace jaxina
