// A worker's state machine: SwitchML's Algorithm 4 with look-ahead exponents, extended to a virtual stream of many
// collectives and to non-finite values. The worker of an aggregator is one process: what its local devices contribute
// is summed while a payload is filled, and every device gets the result. Sans-IO: no sockets, threads, clocks, and no allocation once a collective is
// submitted. A transport asks for passes to send, lets the worker fill their payload straight into a packet or a
// slot, and hands results back.
//
// Chunk c of a collective belongs to slot (start + c) mod s; the start moves on with every collective, so small ones
// overlap. Every worker derives the same passes for every slot from the order of its collectives alone:
//   look-ahead   no data; the exponents of the slot's first chunk       (only if some tensor is float32)
//   flags        which elements are NaN or Inf, with the finite values' exponents   (only if a block holds any)
//   data         the chunk, with the exponents of the slot's next chunk
// and each pass takes the slot's next epoch.
//
// Where the tensors lie on devices, a pass is ready to be sent only once they have produced its payload (DevicePayload),
// and a chunk is done only once they have taken its result. Nothing else differs.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <tuple>
#include <vector>

#include "rdma_engine/numerics/codec.h"
#include "rdma_engine/worker/device_payload.h"
#include "rdma_engine/worker/layout.h"
#include "rdma_engine/worker/recorder.h"
#include "rdma_engine/worker/retransmission_timer.h"
#include "rdma_engine/worker/send_order.h"
#include "rdma_engine/worker/window.h"

namespace jaxina {

enum class Phase : std::uint8_t { kLookAhead, kFlags, kData };

// One transmission of one pass.
struct Pass {
  std::uint16_t slot;
  std::uint32_t epoch;
  std::uint32_t fingerprint;
  std::uint16_t words;
  std::uint8_t exponents;
  Phase phase;
  bool retransmission;
};

// A completed pass as it came from the aggregator. The pointers need only live during on_result(), but for words in
// TransportMemory::results.
struct Result {
  std::uint16_t slot;
  std::uint32_t epoch;
  std::uint32_t fingerprint;
  std::size_t words;
  std::size_t exponents;
  const std::uint32_t* word_data;
  const std::uint8_t* exponent_data;
  numerics::Order order;
};

enum class ResultVerdict : std::uint8_t { kAccepted, kStale, kContradicts };

struct WorkerConfig {
  std::uint32_t devices = 0;  // n: all that contribute, here and elsewhere; sets the scale
  Geometry geometry;
  TimerLimits timer;
  std::uint32_t paths = 1;  // slot i's packets take path i % paths
  WindowLimits window = {};
  TransportMemory memory = {};  // outlives the worker
};

class Worker {
 public:
  explicit Worker(const WorkerConfig& config, const numerics::Codec& codec = numerics::codec());

  // Appends a collective to the stream: contributions[d] is local device d's, all with the same fingerprint. The buffers
  // stay in use until it is popped as completed. Throws Error if the devices have no memory for their payload.
  void submit_contributions(std::vector<Collective> contributions);
  void submit(Collective collective) { submit_contributions({std::move(collective)}); }

  // The next pass to send now, if any; starts its timer. The caller sends it, filled by the two calls below.
  std::optional<Pass> next_pass(Nanoseconds now);
  // Writes pass.exponents bytes; with `merge` takes the maximum with what is there (an aggregator's slot).
  void fill_exponents(const Pass& pass, std::uint8_t* exponents, bool merge) const;
  // Where they lie, if a device has the pass's words in memory of its own: then they are sent from there. Else null.
  const std::uint32_t* words_on_device(const Pass& pass) const;
  // Writes (or adds) pass.words words, but for what a device has written there already.
  void fill_words(const Pass& pass, std::uint32_t* words, numerics::Store store);

  ResultVerdict on_result(const Result& result, Nanoseconds now);
  // fill_exponents, fill_words and on_result in one call, which for long tensors of floats takes less time.
  ResultVerdict exchange(const Pass& pass, std::uint8_t* exponents, bool merge, std::uint32_t* words, numerics::Store store,
                         const Result& result, Nanoseconds now);
  // The aggregator has this pass and waits for other workers: the next retransmission may come late.
  void on_pending(std::uint16_t slot, std::uint32_t epoch, Nanoseconds now);
  // Makes every pass whose timer has expired ready to be sent again.
  void on_tick(Nanoseconds now);
  // When on_tick() is due; nullopt if nothing is in flight. May be early, never late.
  std::optional<Nanoseconds> next_deadline() const;

  // Collectives finish in the order of submit(); returns how many have since the last call.
  std::size_t pop_completed();

  bool has_completed() const {
    return !collectives_.empty() && collectives_.front().chunks_done == collectives_.front().layout.chunks();
  }
  bool idle() const { return collectives_.empty(); }
  std::size_t in_flight() const { return in_flight_; }
  // Whether next_pass() should be asked again soon, because devices are at work whose end nobody announces.
  bool awaits_devices() const { return devices_ && devices_->busy(); }
  // Final: the collectives that are not completed never will be.
  Status device_failure() const { return devices_ ? devices_->failure() : Status(); }
  // The passes without a result, the one sent last first, for the message of a collective that cannot finish.
  std::vector<Pass> passes_in_flight() const;
  // Chunks done and in all of the oldest collective.
  struct Progress { std::size_t done, total; };
  Progress progress() const;
  std::uint64_t retransmissions() const { return retransmissions_; }
  // Words that devices wrote and this processor then copied or added, or that it copied for them to read.
  std::uint64_t staged_words() const { return staged_words_; }
  // Tells the recorder from now on when passes are sent and what comes back; it must outlive the worker.
  void record(Recorder* recorder) { recorder_ = recorder; }

 private:
  struct Entry {
    Entry(Layout l, std::size_t s) : layout(std::move(l)), start(s) {}
    Layout layout;
    std::size_t start;  // the slot of chunk 0
    std::size_t chunks_done = 0;
  };
  enum class SlotPhase : std::uint8_t { kIdle, kProducing, kReady, kInFlight };
  struct Slot {
    std::uint64_t collective = 0;  // sequence number of the collective served, or of the next one to look at
    std::size_t chunk = 0;
    std::uint32_t epoch = 0;       // of the current, or else the next pass
    std::uint32_t attempts = 0;    // transmissions of the current pass
    std::uint32_t fingerprint = 0; // of the current pass and its sizes, once it has been sent
    std::uint16_t words = 0;
    std::uint8_t exponents = 0;
    Nanoseconds sent = 0;          // or, if later, when the aggregator said that it waits for others
    std::uint64_t order = 0;       // of its latest transmission, on its path
    std::uint64_t first_order = 0; // of its first one
    bool counted = false;          // the aggregator has said that it has the current pass
    SlotPhase state = SlotPhase::kIdle;
    Phase phase = Phase::kLookAhead;
    bool queued = false;   // stands in the heap of ready slots
    bool flagged = false;  // the output holds the non-finite values of this chunk already
  };

  // A pass that is ready, by its place in the stream. All workers send in this order, whatever the order in which results
  // came to them: else each would soon hold back what another waits for. And a slot that a lost packet has thrown back catches up.
  struct Ready {
    std::uint64_t collective;
    std::size_t chunk;
    Phase phase;
    std::uint16_t slot;
    bool operator>(const Ready& other) const {
      return std::tie(collective, chunk, phase) > std::tie(other.collective, other.chunk, other.phase);
    }
  };

  const Entry& entry(std::uint64_t sequence) const { return collectives_[sequence - first_sequence_]; }
  Entry& entry(std::uint64_t sequence) { return collectives_[sequence - first_sequence_]; }
  std::uint8_t* exponents(std::size_t slot) { return &exponents_[slot * config_.geometry.blocks_per_chunk]; }
  const std::uint8_t* exponents(std::size_t slot) const { return &exponents_[slot * config_.geometry.blocks_per_chunk]; }
  Pass describe(std::size_t slot) const;
  ResultVerdict judge(const Result& result) const;
  // What follows from an accepted result, which may have been decoded already.
  void accept(const Result& result, bool decoded, Nanoseconds now);
  // The chunk whose exponents the pass carries, if any.
  std::optional<std::size_t> announced_chunk(const Slot& slot) const;
  void record(TraceEvent::Kind kind, std::size_t slot, Nanoseconds now) const;
  bool start_next_collective(std::size_t slot);
  void prepare(std::size_t slot);
  void produce(std::size_t slot);
  void ask_devices();
  void make_ready(std::size_t slot);
  SendOrder& path(std::size_t slot) { return paths_[slot % paths_.size()]; }
  const SendOrder& path(std::size_t slot) const { return paths_[slot % paths_.size()]; }
  void send_again(std::size_t slot);
  void resend_overtaken(std::size_t slot, std::uint64_t order);
  Nanoseconds due(std::size_t slot) const;
  void probe(Nanoseconds now);
  void finish_data(std::size_t slot, const Result& result);
  void decode_data(std::size_t slot, const Result& result);
  bool exchange_data(const Pass& pass, std::uint8_t* exponents, bool merge, std::uint32_t* words, numerics::Store store,
                     const Result& result) const;
  void decode_flags(std::size_t slot, const Result& result);
  DevicePayload::Sum sum_for_devices(std::size_t slot, const Result& result);
  Phase phase_for(std::size_t slot, std::size_t blocks) const;

  WorkerConfig config_;
  const numerics::Codec& codec_;
  numerics::Scale scale_;
  std::vector<Slot> slots_;
  std::vector<std::uint8_t> exponents_;  // per slot: the global exponents of the current chunk
  std::vector<Ready> ready_;             // heap of slots with a pass to send, the earliest of the stream first
  std::vector<SendOrder> paths_;
  std::vector<std::uint16_t> silent_;    // slots whose timeout says nothing about their own packets
  std::size_t probes_ = 1;               // how many of them are sent again at the next timeout
  std::uint32_t silences_ = 0;           // timeouts since the last result
  Nanoseconds next_probe_ = 0;           // which is not before
  std::deque<Entry> collectives_;        // submitted and not yet popped
  std::uint64_t first_sequence_ = 0;     // of collectives_.front()
  std::size_t next_start_ = 0;
  std::size_t in_flight_ = 0;
  std::uint64_t retransmissions_ = 0;
  std::uint64_t staged_words_ = 0;
  Nanoseconds next_deadline_ = 0;
  RetransmissionTimer timer_;
  Recorder* recorder_ = nullptr;
  Window window_;
  std::unique_ptr<DevicePayload> devices_;  // from the first collective on whose tensors lie on devices
};

}  // namespace jaxina
