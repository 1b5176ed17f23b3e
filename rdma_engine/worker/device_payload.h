// DevicePayload: the payload of passes whose tensors are on devices. A device writes a pass's words before the pass may
// be sent, and reads a result's words after it came. It does so in the transport's own memory if possible. Otherwise it
// uses staging memory of the slot, and the worker copies between that and packets or slots.
//
// Requests made while the devices are busy go to them as one batch, and at most kBatches are under way. So the longer a
// device takes, the larger its next batch. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "rdma_engine/worker/layout.h"
#include "rdma_engine/worker/narrow_rounding.h"
#include "rdma_engine/worker/tensor_device.h"

namespace jaxina {

// A worker's turn at the words of a slot that all workers share. While it lasts, no other worker touches them. It ends
// when the transport has counted the pass.
struct Turn {
  std::uint32_t* words = nullptr;  // null: it is another worker's turn, so ask again
  bool first = false;              // nobody has contributed yet: write the words; otherwise add to them
};

// Memory of a transport that devices may use directly. Each part is optional.
struct TransportMemory {
  // All results are stored here. Their words stay, even if packets arrive twice, until this worker has sent the slot's
  // next pass. Empty: results are valid only during on_result().
  std::span<const std::byte> results = {};
  // Slot i's passes are sent from messages[i * stride] on, with their words in network byte order. Once a pass has its
  // result, nobody uses its message any more. Empty: fill_words() is told where to write the words.
  std::span<std::byte> messages = {};
  std::size_t stride = 0;
  // Asks the transport to keep the words of messages in a device's own memory, slot i's from i * stride on. The
  // transport calls `allocate` only if it can use such memory, and then keeps the memory. Returns false if it cannot.
  // May be null.
  std::function<bool(const std::function<ExportedMemory()>& allocate)> adopt = {};
  // Takes a turn at the words of the slot's current pass, which are among `results`. Then a device contributes there,
  // in the processor's place. Never waits. May be null.
  std::function<Turn(std::uint16_t slot)> take_turn = {};
};

class DevicePayload {
 public:
  // `devices` are those of this process, in the order of their contributions. `worker`: this process among the job's.
  // If the devices cannot reach the transport's memory, staging memory is used instead. Throws Error if staging memory
  // cannot be allocated.
  DevicePayload(std::vector<TensorDevice*> devices, const JobShape& shape, std::uint32_t worker,
                const NarrowRounding& rounding, const TransportMemory& transport);
  ~DevicePayload();  // waits until the devices no longer touch any of this memory

  // A device's contribution to a slot's pass, once the device has produced it: in staging memory or in the slot itself
  // in host byte order, or in the message in network byte order. Narrow words and their flags are always packed as in
  // passes.
  const std::uint32_t* words(std::size_t device, std::size_t slot) const {
    return turns_[slot].words != nullptr ? turns_[slot].words : staged_words(device, slot);
  }
  // Where a block's narrow words begin among them, and its flags; 32 bits: flags that are not packed.
  std::size_t narrow_place(const Block& block) const {
    return (sent_from_ ? wire::kSeedWords : 0) + block.index * shape_.narrow_block_words(block.word);
  }
  std::size_t flag_place(const Block& block, numerics::WireWord word) const {
    return word == numerics::WireWord::kInt32 ? block.first_word : block.index * flag_words(shape_);
  }
  // Whether these words are in the messages already.
  bool writes_messages() const { return sent_from_ != nullptr; }
  // Whether they are in the device's own memory, which the processor does not read.
  bool words_on_device() const { return exported_ != nullptr; }
  const std::uint8_t* exponents(std::size_t device, std::size_t slot) const {
    return staging_[device].exponents + slot * shape_.exponents_per_pass();
  }

  // The words of a result, without the seed of narrow ones. The result is of the chunk that produce_data() last
  // produced for the slot.
  struct Sum {
    const std::uint32_t* words;
    numerics::Order order;
  };
  bool reads_results_in_place() const { return sums_ == nullptr; }
  // If they are not read in place: where to copy a slot's result to: packed words as they are, others in host byte
  // order.
  std::uint32_t* staged_sum(std::size_t slot) { return sums_ + slot * staged_stride_; }
  void consume_flags(const Layout& layout, std::size_t chunk, Sum sum);
  void consume_data(std::size_t slot, const Layout& layout, std::size_t chunk, Sum sum, bool keep_non_finite);

  // Start producing a part of a slot's pass. `global`: the exponents of the chunk over all workers, one per block.
  void produce_exponents(std::size_t slot, const Layout& layout, std::size_t chunk, bool finite_only);
  void produce_flags(std::size_t slot, const Layout& layout, std::size_t chunk);
  void produce_data(std::size_t slot, const Layout& layout, std::size_t chunk, const std::uint8_t* global);

  // An event that progress() reports once all requests made before mark() are done.
  struct Milestone {
    std::uint16_t slot;
    bool produced;             // the slot's pass may be sent
    bool consumed;             // a chunk of the collective has its results
    std::uint64_t collective;  // sequence number
  };
  void mark(const Milestone& milestone);

  // Starts the open requests if there is room for another batch, and calls reached(milestone) for everything that is
  // done. Never waits. `busy`: the processor has other work; then small batches wait until they are larger.
  template <typename Reached>
  void progress(bool busy, Reached reached) {
    while (failure_.ok()) {
      start_open(busy);
      if (under_way_.empty() || !is_done(under_way_.front())) return;
      const Batch done = std::move(under_way_.front());
      under_way_.pop_front();
      for (const Milestone& milestone : done.milestones) reached(milestone);
    }
  }
  bool busy() const {
    return failure_.ok() && (!under_way_.empty() || !open_.milestones.empty() || awaited_turns() > 0);
  }
  const Status& failure() const { return failure_; }

 private:
  static constexpr std::size_t kBatches = 2;
  // How often a small batch is asked for without a new request before it starts.
  static constexpr std::size_t kPatience = 20;
  struct Staging {
    DeviceMemory memory;
    std::uint32_t* words;  // slot i's words begin words_stride_ * i words later
    std::uint8_t* exponents;
  };
  struct Batch {
    std::vector<std::vector<DeviceTask>> tasks;  // one list per device
    std::vector<Milestone> milestones;
    std::vector<std::uint64_t> tickets;  // one per device that has started the batch
  };
  // A pass whose words a device contributes in the slot, once it is this worker's turn.
  struct Contribution {
    const Layout* layout;
    std::size_t chunk;
    Milestone milestone;
  };
  std::uint32_t* staged_words(std::size_t device, std::size_t slot) const {
    return staging_[device].words + slot * words_stride_;
  }
  bool takes_turns(const Layout& layout, std::size_t chunk) const;
  std::size_t awaited_turns() const { return own_first_.size() + others_first_.size(); }
  void take_turns(std::deque<Contribution>& contributions);
  void encode(std::size_t slot, const Layout& layout, std::size_t chunk);
  DeviceMemory share(std::span<const std::byte> memory);
  std::uint32_t* place_for_words(const TransportMemory& transport);
  void clear_gaps(std::size_t slot, const Layout& layout, std::size_t chunk, bool floats_only);
  template <typename Describe>
  void add(const Layout& layout, std::size_t chunk, Describe describe);
  std::uint8_t* global(std::size_t slot) { return global_ + (2 * slot + half_[slot]) * shape_.exponents_per_pass(); }
  Batch empty_batch() const { return {std::vector<std::vector<DeviceTask>>(devices_.size()), {}, {}}; }
  void start_open(bool busy);
  bool is_worth_a_start(bool busy);
  bool is_done(const Batch& batch);

  std::vector<TensorDevice*> devices_;
  DeviceFormat format_;
  JobShape shape_;
  std::uint32_t worker_;
  std::function<Turn(std::uint16_t)> take_turn_;
  NarrowRounding rounding_;
  std::size_t staged_stride_;          // words from slot to slot in staging memory
  DeviceMemory results_, messages_;    // the transport's memory, or null if the devices cannot reach it
  std::uint32_t* exported_ = nullptr;  // the device's own memory, if messages have their words there
  std::uint32_t* sent_from_;           // messages_ or exported_, or null if the words are staged
  std::size_t words_stride_;
  numerics::Order produced_order_;
  std::vector<Staging> staging_;   // one per device
  DeviceMemory common_;            // memory that all devices read
  std::uint32_t* sums_ = nullptr;  // staged results, or null if results are read in place
  // The exponents over all workers, of two chunks per slot, used in turn: while the next chunk is encoded, a device may
  // still read the old ones to decode the previous chunk.
  std::uint8_t* global_;
  std::vector<std::uint8_t> half_;  // per slot: which of the two
  std::vector<Turn> turns_;         // per slot: the turn of its current pass, if a device contributes in the slot
  // Passes that wait for their turn. Each worker is the first at its own slots, if it comes in time. So all workers
  // write, and later add, at the same time.
  std::deque<Contribution> own_first_, others_first_;
  std::optional<Contribution> waiting_;  // what produce_data() has left to mark()
  Batch open_;
  std::size_t seen_in_open_ = 0, asked_for_ = 0;
  std::deque<Batch> under_way_;
  Status failure_;
};

}  // namespace jaxina
