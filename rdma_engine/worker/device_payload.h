// The payload of passes whose tensors lie on devices. A device writes a pass's words before the pass may be sent, and
// reads a result's after it came: in the transport's own memory where that can be, else in staging memory of the slot,
// and then the worker copies between there and packets or slots. All that is asked for while the devices are busy goes
// to them as one batch, and at most kBatches are under way: the longer a device takes, the larger the next batch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <vector>

#include "rdma_engine/worker/layout.h"
#include "rdma_engine/worker/tensor_device.h"

namespace jaxina {

// A transport's memory that devices may use as it is.
struct TransportMemory {
  // All results come to lie here, and their words stay, whatever arrives twice, until this worker has sent the slot's
  // next pass. Empty: they last no longer than on_result().
  std::span<const std::byte> results = {};
  // Slot i's passes are sent from messages[i * stride] on, with their words in network order, and from the moment that
  // a pass has its result nobody cares for what lies there. Empty: fill_words() is told where the words go.
  std::span<std::byte> messages = {};
  std::size_t stride = 0;
  // Lets messages have their words in a device's own memory, slot i's from i * stride on, and keeps it. False where
  // that cannot be; the memory is asked for only if it may. May be null.
  std::function<bool(const std::function<ExportedMemory()>& allocate)> adopt = {};
};

class DevicePayload {
 public:
  // devices: those of this process, in the order of their contributions. What they cannot reach of
  // the transport's memory is staged.
  DevicePayload(std::vector<TensorDevice*> devices, const JobShape& shape, const TransportMemory& transport);
  ~DevicePayload();  // waits until the devices touch nothing any more

  // What a device contributes to a slot's pass, once its production is done: in host order in staging memory, or where
  // the pass is sent from and as it is sent.
  const std::uint32_t* words(std::size_t device, std::size_t slot) const {
    return staging_[device].words + slot * words_stride_;
  }
  // Whether that is in the device's own memory, which is not read here.
  bool words_on_device() const { return exported_ != nullptr; }
  const std::uint8_t* exponents(std::size_t device, std::size_t slot) const {
    return staging_[device].exponents + slot * shape_.blocks_per_chunk();
  }

  // The words of a result, of the chunk that was produced last for the slot.
  struct Sum {
    const std::uint32_t* words;
    numerics::Order order;
  };
  bool reads_results_in_place() const { return sums_ == nullptr; }
  // Else: where to copy them to, in host order.
  std::uint32_t* staged_sum(std::size_t slot) { return sums_ + slot * shape_.words_per_chunk(); }
  void consume_flags(const Layout& layout, std::size_t chunk, Sum sum);
  void consume_data(std::size_t slot, const Layout& layout, std::size_t chunk, Sum sum, bool keep_non_finite);

  // `global`: the exponents of the chunk, one a block.
  void produce_exponents(std::size_t slot, const Layout& layout, std::size_t chunk, bool finite_only);
  void produce_flags(std::size_t slot, const Layout& layout, std::size_t chunk);
  void produce_data(std::size_t slot, const Layout& layout, std::size_t chunk, const std::uint8_t* global);

  // What the worker is told when all that was asked for up to here is done.
  struct Milestone {
    std::uint16_t slot;
    bool produced;             // the slot's pass may be sent
    bool consumed;             // a chunk of the collective has its results
    std::uint64_t collective;  // sequence number
  };
  void mark(const Milestone& milestone) { open_.milestones.push_back(milestone); }

  // Starts what was asked for, as far as there is room, and calls reached(milestone) for what is done. Never waits.
  template <typename Reached>
  void progress(Reached reached) {
    while (failure_.ok()) {
      start_open();
      if (under_way_.empty() || !is_done(under_way_.front())) return;
      const Batch done = std::move(under_way_.front());
      under_way_.pop_front();
      for (const Milestone& milestone : done.milestones) reached(milestone);
    }
  }
  bool busy() const { return failure_.ok() && (!under_way_.empty() || !open_.milestones.empty()); }
  const Status& failure() const { return failure_; }

 private:
  static constexpr std::size_t kBatches = 2;
  struct Staging {
    DeviceMemory memory;
    std::uint32_t* words;  // slot i's are words_stride_ * i further on
    std::uint8_t* exponents;
  };
  struct Batch {
    std::vector<std::vector<DeviceTask>> tasks;  // by device
    std::vector<Milestone> milestones;
    std::vector<std::uint64_t> tickets;  // by device, as far as it was started
  };
  DeviceMemory share(std::span<const std::byte> memory);
  std::uint32_t* place_for_words(const TransportMemory& transport);
  void clear_gaps(std::size_t slot, const Layout& layout, std::size_t chunk, bool floats_only);
  template <typename Describe>
  void add(const Layout& layout, std::size_t chunk, Describe describe);
  std::uint8_t* global(std::size_t slot) { return global_ + (2 * slot + turn_[slot]) * shape_.blocks_per_chunk(); }
  Batch empty_batch() const { return {std::vector<std::vector<DeviceTask>>(devices_.size()), {}, {}}; }
  void start_open();
  bool is_done(const Batch& batch);

  std::vector<TensorDevice*> devices_;
  DeviceFormat format_;
  JobShape shape_;
  DeviceMemory results_, messages_;    // the transport's, if the devices reach it
  std::uint32_t* exported_ = nullptr;  // the device's own, if messages have their words there
  std::uint32_t* sent_from_;           // one of these two, or null
  std::size_t words_stride_;
  numerics::Order produced_order_;
  std::vector<Staging> staging_;  // by device
  DeviceMemory common_;           // read by all devices
  std::uint32_t* sums_ = nullptr;
  // Per slot the global exponents of two chunks by turns: one is still read to decode a chunk when the next is encoded.
  std::uint8_t* global_;
  std::vector<std::uint8_t> turn_;
  Batch open_;
  std::deque<Batch> under_way_;
  Status failure_;
};

}  // namespace jaxina
