// The aggregator of one job as a state machine: updates in, answers out. It knows neither packets nor addresses; what
// speaks datagrams (datagrams/) or RDMA messages (messages/) stands around it. Sans-IO: no sockets, threads or clocks,
// and no allocation once it is made. A switch's threads, the simulator and the conformance device run the same class.
//
// A job's slots may be shared out over several aggregators, each a shard of the pool with a thread of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "rdma_engine/aggregator/slot.h"
#include "rdma_engine/base/counters.h"
#include "rdma_engine/errors.h"
#include "rdma_engine/numerics/codec.h"
#include "rdma_engine/shape/job_shape.h"

namespace jaxina {

// One worker's contribution to one pass of a slot. The words are in network byte order and aligned to 4.
struct UpdateView {
  std::uint32_t worker = 0;
  std::uint32_t slot = 0;
  std::uint32_t epoch = 0;
  std::uint32_t fingerprint = 0;
  std::span<const std::uint32_t> words;
  std::span<const std::uint8_t> exponents;
};

// A completed pass, as it lies in the pool until the pass after next of its slot begins: the headroom, the exponents
// with zeros up to the next multiple of 4, the words in network byte order. The headroom is the codec's: it may write a
// header there, which stays as long as the rest.
struct ResultView {
  std::uint32_t slot = 0;
  std::uint32_t epoch = 0;
  std::uint32_t fingerprint = 0;
  std::span<const std::uint32_t> words;
  std::span<const std::uint8_t> exponents;
  std::uint8_t* headroom = nullptr;
};

// What follows from an update.
enum class Effect : std::uint8_t {
  kCounted,      // nobody is told
  kCompleted,    // `result` goes to all workers
  kPending,      // counted before; its worker is told who has been `seen`
  kResultAgain,  // counted before, and the pass is complete: `result` goes to its worker
  kAhead,        // the slot cannot have reached this pass: its worker is refused, the aggregator has lost its state
  kMismatch,     // contradicts what worker `other` sums: the job should end
  kEnded,        // the job has ended: its worker is told why
  kRejected,     // changes nothing, and nobody is told
};

struct Answer {
  Effect effect = Effect::kRejected;
  ResultView result = {};
  const WorkerSet* seen = nullptr;
  std::uint32_t other = 0;
};

// What one version of a slot holds, in host byte order.
struct SlotContents {
  SlotVersion control;
  std::vector<std::uint8_t> exponents;
  std::vector<std::uint32_t> words;
};

// Slot i belongs to shard i mod `of`.
struct Shard {
  std::uint32_t index = 0;
  std::uint32_t of = 1;
};

struct AggregatorOptions {
  Shard shard = {};
  std::size_t headroom = 0;     // bytes in front of every result, a multiple of 4
  std::size_t extra_words = 0;  // of every pass beyond its own; who speaks for the aggregator sees to it
  // Called once for every complete pass, with its words in host order.
  void (*seal)(std::span<std::uint32_t> words, std::span<const std::uint8_t> exponents) = nullptr;
  std::uint32_t first_epoch = 0;  // of every slot's first pass; workers begin with 0, tests of the wrap do not
};

class Aggregator {
 public:
  // Allocates the slots, and does not touch their payload: what the system has not given yet, it gives at the first
  // use. Throws std::bad_alloc.
  Aggregator(const JobShape& shape, const AggregatorOptions& options, const numerics::Codec& codec = numerics::codec());

  // Memory that such an aggregator takes.
  static std::size_t bytes_for(const JobShape& shape, const AggregatorOptions& options);

  const JobShape& shape() const { return shape_; }

  // Whatever the update says, only a valid one changes anything. The answer holds until the next call.
  Answer on_update(const UpdateView& update);

  // From now on every update is answered with kEnded. The first reason stands.
  void end(const Status& reason);
  const Status& ended() const { return ended_; }

  // The workers that some incomplete pass waits for.
  WorkerSet missing() const;
  // A copy of version `version` (0 or 1) of a slot; nothing if there is no such slot here. For comparing aggregators.
  std::optional<SlotContents> inspect(std::uint32_t slot, std::uint32_t version) const;

  // Updates, results, duplicates and rejects; what speaks for the aggregator counts its packets here too.
  Counters& counters() { return counters_; }
  const Counters& counters() const { return counters_; }

 private:
  struct Size {
    std::uint16_t words = 0;
    std::uint8_t exponents = 0;
  };
  std::size_t place(std::uint32_t slot) const { return slot / options_.shard.of; }
  std::size_t version_at(std::uint32_t slot, std::uint32_t epoch) const { return 2 * place(slot) + (epoch & 1); }
  std::uint8_t* headroom(std::uint32_t slot, std::uint32_t epoch) const {
    return payload_.get() + version_at(slot, epoch) * stride_;
  }
  std::uint8_t* exponents(std::uint32_t slot, std::uint32_t epoch) const {
    return headroom(slot, epoch) + options_.headroom;
  }
  std::uint32_t* words(std::uint32_t slot, std::uint32_t epoch, std::size_t exponent_count) const {
    return reinterpret_cast<std::uint32_t*>(exponents(slot, epoch) + wire::padded(exponent_count));
  }
  Answer reject(Counter reason);
  Answer apply(const UpdateView& update);
  void accept(const UpdateView& update, bool first);
  void complete(const UpdateView& update);
  ResultView result_of(const UpdateView& update) const;

  JobShape shape_;
  AggregatorOptions options_;
  const numerics::Codec& codec_;
  std::size_t stride_;  // bytes of a version
  std::vector<SlotState> slots_;
  std::vector<Size> sizes_;  // by version
  std::unique_ptr<std::uint8_t[]> payload_;
  Status ended_;  // why the job ended, or ok
  Counters counters_;
};

}  // namespace jaxina
