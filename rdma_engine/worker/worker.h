// A worker's state machine: SwitchML's Algorithm 4 with look-ahead exponents, extended to a virtual stream of many
// collectives and to non-finite values. The worker of an aggregator is one process: what its local devices contribute
// is summed while a payload is filled, and every device gets the result. Sans-IO: no sockets, threads, clocks, and no
// allocation once a collective is submitted. A transport asks for passes to send, lets the worker fill their payload
// straight into a packet or a slot, and hands results back.
//
// It is put together from parts that do not know one another: the stream says which pass a slot is in, the ready queue
// which slot is next, loss control how much may be in flight and what is sent again, and the payload what a pass
// carries.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "rdma_engine/base/assert.h"
#include "rdma_engine/base/time.h"
#include "rdma_engine/numerics/codec.h"
#include "rdma_engine/worker/layout.h"
#include "rdma_engine/worker/loss_control.h"
#include "rdma_engine/worker/pass.h"
#include "rdma_engine/worker/pass_payload.h"
#include "rdma_engine/worker/ready_queue.h"
#include "rdma_engine/worker/recorder.h"
#include "rdma_engine/worker/stream.h"

namespace jaxina {

enum class ResultVerdict : std::uint8_t { kAccepted, kStale, kContradicts };

struct WorkerConfig {
  JobShape shape;
  TimerLimits timer;
  std::uint32_t paths = 1;  // slot i's packets take path i % paths
  WindowLimits window = {};
  TransportMemory memory = {};  // outlives the worker
};

class Worker {
 public:
  explicit Worker(const WorkerConfig& config, const numerics::Codec& codec = numerics::codec());

  // Appends a collective to the stream: contributions[d] is local device d's, all with the same fingerprint. The
  // buffers stay in use until it is popped as completed. Throws Error if the devices have no memory for their payload.
  void submit_contributions(std::vector<Collective> contributions);
  void submit(Collective collective) { submit_contributions({std::move(collective)}); }

  // The next pass to send now, if any; starts its timer. The caller sends it, filled by the two calls below.
  std::optional<Pass> next_pass(Nanoseconds now);
  // Writes pass.exponents bytes; with `merge` takes the maximum with what is there (an aggregator's slot).
  void fill_exponents(const Pass& pass, std::uint8_t* exponents, bool merge) const {
    payload_.fill_exponents(content(pass), exponents, merge);
  }
  // Where they lie, if a device has the pass's words in memory of its own: then they are sent from there. Else null.
  const std::uint32_t* words_on_device(const Pass& pass) const { return payload_.words_on_device(content(pass)); }
  // Writes (or adds) pass.words words, but for what a device has written there already.
  void fill_words(const Pass& pass, std::uint32_t* words, numerics::Store store) {
    payload_.fill_words(content(pass), pass.words, words, store, pass.retransmission);
  }

  ResultVerdict on_result(const Result& result, Nanoseconds now);
  // fill_exponents, fill_words and on_result in one call, which for long tensors of floats takes less time.
  ResultVerdict exchange(const Pass& pass, std::uint8_t* exponents, bool merge, std::uint32_t* words,
                         numerics::Store store, const Result& result, Nanoseconds now);
  // The aggregator has this pass and waits for other workers: the next retransmission may come late.
  void on_pending(std::uint16_t slot, std::uint32_t epoch, Nanoseconds now);
  // A receive buffer overflowed, this worker's or its aggregator's: less will be in flight.
  void on_overflow() { loss_.on_overflow(); }
  // Makes every pass whose timer has expired ready to be sent again.
  void on_tick(Nanoseconds now);
  // When on_tick() is due; nullopt if nothing is in flight. May be early, and late once the timeout has shrunk.
  std::optional<Nanoseconds> next_deadline() const { return loss_.next_deadline(); }

  // Collectives finish in the order of submit(); returns how many have since the last call.
  std::size_t pop_completed() { return stream_.pop_completed(); }

  bool has_completed() const { return stream_.has_completed(); }
  bool idle() const { return stream_.idle(); }
  std::size_t in_flight() const { return loss_.in_flight(); }
  // Whether next_pass() should be asked again soon, because devices are at work whose end nobody announces.
  bool awaits_devices() const { return payload_.awaits_devices(); }
  // Final: the collectives that are not completed never will be.
  Status device_failure() const { return payload_.device_failure(); }
  // The passes without a result, the one sent last first, for the message of a collective that cannot finish.
  std::vector<Pass> passes_in_flight() const;
  using Progress = Stream::Progress;
  Progress progress() const { return stream_.progress(); }
  std::uint64_t retransmissions() const { return loss_.retransmissions(); }
  // Words that devices wrote and this processor then copied or added, or that it copied for them to read.
  std::uint64_t staged_words() const { return payload_.staged_words(); }
  // Tells the recorder from now on when passes are sent and what comes back; it must outlive the worker.
  void record(Recorder* recorder) { recorder_ = recorder; }

 private:
  // What a pass carries that is the slot's current one.
  const Content& content(const Pass& pass) const {
    JAXINA_ASSERT(pass.slot < stream_.slots() && pass.epoch == stream_.epoch(pass.slot));
    return stream_.content(pass.slot);
  }
  // Whether what is ready comes before all that is in flight. Then it is sent though the window is full: other workers
  // may have all of theirs in flight waiting for it, as this one has for what they lost.
  bool holds_back_others();
  ResultVerdict judge(const Result& result) const;
  // What follows from an accepted result, which may have been decoded already.
  void accept(const Result& result, bool decoded, Nanoseconds now);
  bool decode(const Result& result);
  void finish_chunk(std::uint64_t collective) {
    // Once, not after every chunk: it waits until memory has taken all that was streamed.
    if (stream_.chunk_done(collective)) payload_.end_streaming();
  }
  void prepare(std::uint16_t slot);
  void record(TraceEvent::Kind kind, std::uint16_t slot, Nanoseconds now) const;

  JobShape shape_;
  Stream stream_;
  ReadyQueue ready_;
  LossControl loss_;
  PassPayload payload_;
  Recorder* recorder_ = nullptr;
};

}  // namespace jaxina
