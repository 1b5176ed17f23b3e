// Aggregator: the aggregator of one job as a state machine. Updates go in, answers come out. It knows neither packets
// nor addresses; the code that speaks datagrams (datagrams/) or RDMA messages (messages/) wraps it. It is sans-IO: no
// sockets, threads or clocks, and no allocation after construction. A switch's threads, the simulator and the
// conformance device all run this class.
//
// It is not thread-safe. To use several threads, shard a job's slots over several aggregators, each with its own
// thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "rdma_engine/aggregator/pass_sum.h"
#include "rdma_engine/aggregator/slot.h"
#include "rdma_engine/base/counters.h"
#include "rdma_engine/errors.h"
#include "rdma_engine/numerics/codec.h"
#include "rdma_engine/shape/job_shape.h"

namespace jaxina {

// The contribution of one worker, or the sum of a group of workers, to one pass of a slot. Words are in the form of
// packets and aligned to 4 bytes.
struct UpdateView {
  std::uint32_t worker = 0;  // of a group: any of its workers
  std::uint32_t slot = 0;
  std::uint32_t epoch = 0;
  std::uint32_t fingerprint = 0;
  std::span<const std::uint32_t> words;
  std::span<const std::uint8_t> exponents;
  const WorkerSet* group = nullptr;  // the workers whose sum this is; null: only `worker`
  wire::Format format = wire::Format::kInt32;
};

// A completed pass, as it lies in the pool: the headroom, then the exponents (padded with zeros to a multiple of 4
// bytes), then the words in the form of packets. The pool keeps it until the pass after next of its slot begins. The
// protocol code may write a packet header into the headroom; that header lives as long as the rest.
struct ResultView {
  std::uint32_t slot = 0;
  std::uint32_t epoch = 0;
  std::uint32_t fingerprint = 0;
  std::span<const std::uint32_t> words;
  std::span<const std::uint8_t> exponents;
  std::uint8_t* headroom = nullptr;
  wire::Format format = wire::Format::kInt32;
};

// What the caller must do after an update.
enum class Effect : std::uint8_t {
  kCounted,      // counted; tell nobody
  kCompleted,    // complete: send `result` to all workers
  kPending,      // a duplicate, or a group that was counted in part; the pass is incomplete: tell who was `seen`
  kResultAgain,  // a duplicate, and the pass is complete: send `result` to this worker again
  kAhead,        // the slot cannot have reached this pass, so the aggregator lost its state: refuse the update
  kMismatch,     // `worker` contradicts what worker `other` sums: end the job
  kEnded,        // the job has ended: tell the worker why
  kRejected,     // invalid or stale; changes nothing, tell nobody
};

struct Answer {
  Effect effect = Effect::kRejected;
  ResultView result = {};
  const WorkerSet* seen = nullptr;      // of kCounted and kPending: whose contributions are in
  std::uint32_t worker = 0, other = 0;  // of kMismatch
};

// A copy of one version of a slot, in host byte order, without the protocol's extra words. The words of an incomplete
// pass with narrow words are the seed and the sums so far, 32 bits each.
struct SlotContents {
  SlotVersion control;
  std::vector<std::uint8_t> exponents;
  std::vector<std::uint32_t> words;
  wire::Format format = wire::Format::kInt32;
};

// One part of a job's slots: slot i belongs to shard i mod `of`.
struct Shard {
  std::uint32_t index = 0;
  std::uint32_t of = 1;
};

struct AggregatorOptions {
  Shard shard = {};
  std::size_t headroom = 0;  // bytes reserved in front of every result, a multiple of 4
  // Words of 32 bits that the protocol code appends to every pass, whatever its format. They are added modulo 2^32.
  std::size_t extra_words = 0;
  // Called once for every complete pass, with its words in host byte order. It may change them: messages/ adds a check.
  void (*seal)(std::span<std::uint32_t> words, std::span<const std::uint8_t> exponents) = nullptr;
  // The extra words of other formats than kInt32 are not sums over the pass's words. Called for the words of each
  // update, `sign` -1, and for those of the result, `sign` 1; all in host byte order, without the extra words. It
  // changes these.
  void (*seal_packed)(std::span<const std::uint32_t> words, std::int32_t sign, std::uint32_t* extra) = nullptr;
  std::uint32_t first_epoch = 0;  // the first pass of every slot. Workers begin with 0; tests of the wrap-around do not
};

class Aggregator {
 public:
  // Allocates the slots but does not touch their payload, so the system provides that memory at first use. Throws
  // std::bad_alloc.
  Aggregator(const JobShape& shape, const AggregatorOptions& options, const numerics::Codec& codec = numerics::codec());

  // Bytes of memory that such an aggregator needs.
  static std::size_t bytes_for(const JobShape& shape, const AggregatorOptions& options);

  const JobShape& shape() const { return shape_; }

  // Only a valid update changes anything. The answer is valid until the next call.
  Answer on_update(const UpdateView& update);

  // Ends the job: from now on every update is answered with kEnded. If called again, the first reason stays.
  void end(const Status& reason);
  const Status& ended() const { return ended_; }

  // The workers that any incomplete pass waits for.
  WorkerSet missing() const;
  // A copy of version `version` (0 or 1) of a slot, or nothing if this shard has no such slot. For comparing
  // aggregators.
  std::optional<SlotContents> inspect(std::uint32_t slot, std::uint32_t version) const;

  // Counts updates, results, duplicates and rejects. The protocol code counts its packets here too.
  Counters& counters() { return counters_; }
  const Counters& counters() const { return counters_; }

 private:
  struct Size {
    std::uint16_t words = 0;
    std::uint8_t exponents = 0;
    wire::Format format = wire::Format::kInt32;
    bool operator==(const Size&) const = default;
  };
  static Size size_of(const UpdateView& update);
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
  PassSum sum_of(const UpdateView& update) const {
    const std::size_t count = update.exponents.size();
    return {words(update.slot, update.epoch, count), exponents(update.slot, update.epoch), update.format,
            sums_.get() + version_at(update.slot, update.epoch) * shape_.narrow_elements_per_pass()};
  }
  void take_extra_words(const UpdateView& update, std::uint32_t* extra, bool add);
  void seal(const UpdateView& update, const PassSum& sum);
  Answer reject(Counter reason);
  Answer apply(const UpdateView& update);
  void accept(const UpdateView& update, bool overwrite);
  void complete(const UpdateView& update);
  ResultView result_of(const UpdateView& update) const;

  JobShape shape_;
  AggregatorOptions options_;
  const numerics::Codec& codec_;
  std::size_t stride_;  // bytes of a version
  std::vector<SlotState> slots_;
  std::vector<Size> sizes_;  // indexed by version_at()
  std::unique_ptr<std::uint8_t[]> payload_;
  // The sums of narrow words, apart from payload_, so that words of 32 bits lie close together. Like payload_, this
  // memory is provided at first use.
  std::unique_ptr<std::uint32_t[]> sums_;
  std::vector<std::uint32_t> scratch_;  // the words of an update or a result, for seal_packed
  Status ended_;                        // why the job ended, or ok
  Counters counters_;
};

}  // namespace jaxina
