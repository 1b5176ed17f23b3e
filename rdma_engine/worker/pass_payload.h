// What the passes carry: exponents, words and flags, straight between the local devices' tensors and a packet or slot.
// Keeps what a slot's passes tell its later ones. Knows nothing of which pass comes next, and nothing of what is lost.
//
// Where the tensors lie on devices, these produce a pass's payload before it may be sent and take its result
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
#include "rdma_engine/worker/pass.h"

namespace jaxina {

class PassPayload {
 public:
  // `memory` outlives this.
  PassPayload(const JobShape& shape, const TransportMemory& memory, const numerics::Codec& codec);

  // To be called with the layout of each collective, before any of its passes. Throws Error if it is the first one on
  // devices and these have no memory for their payload.
  void admit(const Layout& layout);

  // The pass is the slot's next one. True if it can be sent at once; else progress() will say when.
  bool produce(const Content& pass);
  // Calls produced(slot) for each slot whose pass can be sent now, and consumed(collective) for each chunk whose result
  // the devices have taken. Never waits.
  template <typename Produced, typename Consumed>
  void progress(Produced produced, Consumed consumed) {
    if (!devices_) return;
    devices_->progress([&](const DevicePayload::Milestone& milestone) {
      if (milestone.consumed) consumed(milestone.collective);
      if (milestone.produced) produced(milestone.slot);
    });
  }
  bool awaits_devices() const { return devices_ && devices_->busy(); }
  Status device_failure() const { return devices_ ? devices_->failure() : Status(); }

  // See Worker. `count` is how many words the pass has; what is filled `again` has been counted.
  void fill_exponents(const Content& pass, std::uint8_t* exponents, bool merge) const;
  void fill_words(const Content& pass, std::size_t count, std::uint32_t* words, numerics::Store store,
                  bool again = false);
  const std::uint32_t* words_on_device(const Content& pass) const;

  // Takes the words of a result, with the exponents that a pass before announced.
  void decode_flags(const Content& pass, const Result& result);
  // True if the chunk is done with that; else the devices have yet to take it.
  bool decode_data(const Content& pass, const Result& result);
  // fill_exponents(), fill_words() and decode_data() side by side, which for long tensors of floats takes less time.
  // False if that cannot be, and nothing has been done.
  bool exchange(const Content& filled, std::size_t count, std::uint8_t* exponents, bool merge, std::uint32_t* words,
                numerics::Store store, const Content& decoded, const Result& result) const;
  // Keeps the exponents that came with a result for the passes of the chunk they announce.
  Announced keep_exponents(const Result& result);
  // The last chunk of a collective has been decoded.
  void end_streaming() const { codec_.end_streaming(); }

  // Words that devices wrote and this processor then copied or added, or that it copied for them to read.
  std::uint64_t staged_words() const { return staged_words_; }

 private:
  std::uint8_t* exponents(std::size_t slot) { return &exponents_[slot * shape_.blocks_per_chunk()]; }
  const std::uint8_t* exponents(std::size_t slot) const { return &exponents_[slot * shape_.blocks_per_chunk()]; }
  DevicePayload::Sum sum_for_devices(const Result& result);

  JobShape shape_;
  TransportMemory memory_;
  const numerics::Codec& codec_;
  numerics::Scale scale_;
  std::vector<std::uint8_t> exponents_;     // per slot: the global exponents of the current chunk
  std::vector<std::uint8_t> flagged_;       // per slot: the output holds the current chunk's non-finite values already
  std::unique_ptr<DevicePayload> devices_;  // from the first collective on whose tensors lie on devices
  std::uint64_t staged_words_ = 0;
};

}  // namespace jaxina
