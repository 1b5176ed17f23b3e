// Worker: the state machine of a worker. It is Algorithm 4 of the SwitchML paper (Sapio et al., NSDI 2021) with
// look-ahead exponents, extended to a stream of many collectives and to non-finite values. One worker is one process:
// the contributions of its local devices are summed when a payload is filled, and every device gets the result.
//
// It is sans-IO: no sockets, threads or clocks, and no allocation after a collective is submitted. A transport asks for
// passes to send, lets the worker write their payload directly into a packet or a slot, and passes results back. Not
// thread-safe.
//
// It consists of parts that do not know each other: the stream says which pass a slot is in, the ready queue which slot
// is next, loss control how much may be in flight and what is sent again, and the payload what a pass carries.
#pragma once

#include <array>
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
  std::uint32_t index = 0;      // this worker's among the job's, for random numbers
  Packing packing = Packing::kWhole;
};

class Worker {
 public:
  explicit Worker(const WorkerConfig& config, const numerics::Codec& codec = numerics::codec());

  // Appends a collective to the stream. contributions[d] is that of local device d; all have the same fingerprint. The
  // buffers stay in use until pop_completed() reports the collective. Throws Error if a device cannot allocate memory
  // for its payload.
  void submit_contributions(std::vector<Collective> contributions);
  void submit(Collective collective) { submit_contributions({std::move(collective)}); }

  // The next pass to send now, if any. Starts the pass's timer, so the caller must send it. The functions below fill
  // it.
  std::optional<Pass> next_pass(Nanoseconds now);
  // Writes pass.exponents bytes. With `merge`, keeps the maximum of each byte and the one there (an aggregator's slot).
  void fill_exponents(const Pass& pass, std::uint8_t* exponents, bool merge) const {
    payload_.fill_exponents(content(pass), exponents, merge);
  }
  // The address of the pass's words, if a device holds them in its own memory: then send them from there. Else null.
  const std::uint32_t* words_on_device(const Pass& pass) const { return payload_.words_on_device(content(pass)); }
  // Writes or adds pass.words words. Skips words that a device has already written in place.
  void fill_words(const Pass& pass, std::uint32_t* words, numerics::Store store) {
    payload_.fill_words(content(pass), pass.words, words, store, pass.retransmission());
  }

  ResultVerdict on_result(const Result& result, Nanoseconds now);
  // Does fill_exponents, fill_words and on_result in one call, which is faster for long tensors of floats.
  ResultVerdict exchange(const Pass& pass, std::uint8_t* exponents, bool merge, std::uint32_t* words,
                         numerics::Store store, const Result& result, Nanoseconds now);
  // The aggregator has this pass and waits for other workers. So the next retransmission may come later. `asked`: see
  // LossControl::on_pending().
  void on_pending(std::uint16_t slot, std::uint32_t epoch, Nanoseconds now, bool asked = true);
  // The aggregator waits for this worker's contribution to the pass, which a switch on the way has not passed on. Makes
  // the pass ready to be sent again.
  void on_not_counted(std::uint16_t slot, std::uint32_t epoch);
  // A switch on the way has not taken this worker's contribution to the pass, or will not pass it on. Makes the pass
  // ready to be sent again.
  void on_turned_away(std::uint16_t slot, std::uint32_t epoch);
  // A receive buffer overflowed, this worker's or its aggregator's. Reduces what may be in flight.
  void on_overflow() { loss_.on_overflow(); }
  // From now on passes take another way, on which far fewer fit. Those in flight are sent again, that way.
  void on_rerouted();
  // Makes every pass whose timer has expired ready to be sent again.
  void on_tick(Nanoseconds now);
  // When on_tick() is due; nullopt if nothing is in flight. The time may be too early, or too late if the timeout has
  // shrunk since.
  std::optional<Nanoseconds> next_deadline() const { return loss_.next_deadline(); }

  // Collectives complete in the order of submission. Returns how many have completed since the last call.
  std::size_t pop_completed() { return stream_.pop_completed(); }

  bool has_completed() const { return stream_.has_completed(); }
  bool idle() const { return stream_.idle(); }
  // The epoch of the slot's current pass.
  std::uint32_t epoch(std::uint16_t slot) const { return stream_.epoch(slot); }
  std::size_t in_flight() const { return loss_.in_flight(); }
  // Whether there is a pass to send, if it may be in flight.
  bool has_ready() const { return ready_.first().has_value(); }
  // Whether to call next_pass() again soon: devices are at work, and nobody announces when they finish.
  bool awaits_devices() const { return payload_.awaits_devices(); }
  // A device's failure is final: the collectives that are not completed never will be.
  Status device_failure() const { return payload_.device_failure(); }
  // The passes without a result, the most recently sent first. For the error message of a collective that cannot
  // finish.
  std::vector<Pass> passes_in_flight() const;
  using Progress = Stream::Progress;
  Progress progress() const { return stream_.progress(); }
  std::uint64_t retransmissions() const { return loss_.retransmissions(); }
  const Window& window() const { return loss_.window(); }
  // Bytes of words that were sent, for each format.
  const std::array<std::uint64_t, 4>& bytes_sent() const { return bytes_sent_; }
  // Words of tensors on devices that passed through staging memory: the processor copied or added them.
  std::uint64_t staged_words() const { return payload_.staged_words(); }
  // From now on reports to the recorder when passes are sent and what comes back. The recorder must outlive the worker.
  void record(Recorder* recorder) { recorder_ = recorder; }

 private:
  // What the slot's current pass carries; `pass` must be that pass.
  const Content& content(const Pass& pass) const {
    JAXINA_ASSERT(pass.slot < stream_.slots() && pass.epoch == stream_.epoch(pass.slot));
    return stream_.content(pass.slot);
  }
  // Whether the next ready pass comes before everything in flight. Then it is sent even if the window is full.
  // Otherwise two workers could wait for each other: each with a window full of passes that need a pass the other holds
  // back.
  bool ready_precedes_in_flight();
  ResultVerdict judge(const Result& result) const;
  // Applies an accepted result. `decoded` says that its words have been decoded already.
  void accept(const Result& result, bool decoded, Nanoseconds now);
  bool decode(const Result& result);
  void finish_chunk(std::uint64_t collective) {
    // Once per collective, not per chunk: it waits until memory has taken all streamed writes.
    if (stream_.chunk_done(collective)) payload_.end_streaming();
  }
  void prepare(std::uint16_t slot);
  void record(TraceEvent::Kind kind, std::uint16_t slot, Nanoseconds now) const;

  JobShape shape_;
  Packing packing_;
  Stream stream_;
  ReadyQueue ready_;
  LossControl loss_;
  PassPayload payload_;
  std::array<std::uint64_t, 4> bytes_sent_{};
  Recorder* recorder_ = nullptr;
};

}  // namespace jaxina
