// PassPayload: what the passes carry. It converts exponents, words and flags directly between the local devices'
// tensors and a packet or slot. It keeps the exponents and flags that a slot's later passes need. It knows neither
// which pass comes next nor what is lost.
//
// If the tensors are on devices, the devices produce a pass's payload before it may be sent, and they take its result
// (DevicePayload).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "rdma_engine/errors.h"
#include "rdma_engine/numerics/codec.h"
#include "rdma_engine/worker/device_payload.h"
#include "rdma_engine/worker/layout.h"
#include "rdma_engine/worker/narrow_blocks.h"
#include "rdma_engine/worker/pass.h"

namespace jaxina {

class PassPayload {
 public:
  // `worker`: this worker's index, for random numbers. `memory` must outlive this object.
  PassPayload(const JobShape& shape, std::uint32_t worker, const TransportMemory& memory, const numerics::Codec& codec);

  // Call this with the layout of each collective, before any of its passes. Throws Error if the collective is the first
  // one on devices and a device cannot allocate memory for its payload.
  void admit(const Layout& layout);

  // Called when the pass is the slot's next one. Returns true if it can be sent at once; otherwise progress() reports
  // when.
  bool produce(const Content& pass);
  // Calls produced(slot) for each slot whose pass can be sent now, and consumed(collective) for each chunk whose result
  // the devices have taken. Never waits. `busy`: see DevicePayload::progress().
  template <typename Produced, typename Consumed>
  void progress(bool busy, Produced produced, Consumed consumed) {
    if (!devices_) return;
    devices_->progress(busy, [&](const DevicePayload::Milestone& milestone) {
      if (milestone.consumed) consumed(milestone.collective);
      if (milestone.produced) produced(milestone.slot);
    });
  }
  bool awaits_devices() const { return devices_ && devices_->busy(); }
  Status device_failure() const { return devices_ ? devices_->failure() : Status(); }

  // See Worker. `count` is the number of words of the pass. `again`: the pass was filled before, so do not count its
  // numbers that became zero again.
  void fill_exponents(const Content& pass, std::uint8_t* exponents, bool merge) const;
  void fill_words(const Content& pass, std::size_t count, std::uint32_t* words, numerics::Store store,
                  bool again = false);
  const std::uint32_t* words_on_device(const Content& pass) const;

  // Takes the words of a result. Uses the exponents that an earlier pass announced.
  void decode_flags(const Content& pass, const Result& result);
  // Returns true if the chunk is done; false if the devices still have to take the result.
  bool decode_data(const Content& pass, const Result& result);
  // Does fill_exponents(), fill_words() and decode_data() together, which is faster for long tensors of floats. Returns
  // false, having done nothing, if these passes do not allow it.
  bool exchange(const Content& filled, std::size_t count, std::uint8_t* exponents, bool merge, std::uint32_t* words,
                numerics::Store store, const Content& decoded, const Result& result);
  // Stores the exponents that came with a result, for the passes of the chunk that they announce.
  Announced keep_exponents(const Result& result);
  // Call this after the last chunk of a collective has been decoded.
  void end_streaming() const { codec_.end_streaming(); }

  // Words of tensors on devices that passed through staging memory: the processor copied or added them.
  std::uint64_t staged_words() const { return staged_words_; }

 private:
  std::uint8_t* exponents(std::size_t slot) { return &exponents_[slot * shape_.exponents_per_pass()]; }
  const std::uint8_t* exponents(std::size_t slot) const { return &exponents_[slot * shape_.exponents_per_pass()]; }
  void fill_packed(const Content& pass, std::size_t count, std::uint32_t* words);
  std::size_t encode_block(const Layout& layout, const Block& block, std::uint8_t exponent, numerics::Store store,
                           std::uint32_t* dst);
  void decode_block(const Layout& layout, std::size_t device, const Block& block, const Result& result,
                    std::uint8_t exponent, bool flagged);
  bool alike(const Layout& source, const Block& ahead, const Block& in, const Block& out) const;
  NarrowBlocks::Produced produced(const Content& pass, const Block& block);
  DevicePayload::Sum sum_for_devices(const Result& result);

  JobShape shape_;
  std::uint32_t worker_;
  TransportMemory memory_;
  const numerics::Codec& codec_;
  numerics::Scale scale_;  // of words of 32 bits
  NarrowBlocks narrow_;
  std::vector<std::uint8_t> exponents_;  // per slot: the exponents of the current chunk over all workers
  // Per slot: whether the output already holds the current chunk's non-finite values.
  std::vector<std::uint8_t> flagged_;
  std::vector<const std::uint32_t*> produced_;  // by each device, for one block
  std::unique_ptr<DevicePayload> devices_;      // null until the first collective whose tensors are on devices
  std::uint64_t staged_words_ = 0;
};

}  // namespace jaxina
