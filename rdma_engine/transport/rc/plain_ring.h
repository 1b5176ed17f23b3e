// PlainRing: sums in a ring without a switch. The workers add while messages go round, as in any ring all-reduce. It
// stands between a message session and its link, so that the session sees results only.
//
// A pass begins at one worker, and passes take turns. That worker sends its words to the next one. Each adds its own
// and sends the partial sum on. The last one has the result, which goes on round the ring to all others. So of n
// workers each sends 2 (n - 1) / n times the bytes of a sum, as in a ring that cuts the tensor into n parts.
//
// No place is overwritten too early. Worker i posts pass e + 1 of a slot when it has the result of e. That one has the
// contribution of every worker, which each gives once it has the result of e - 1, and has read it. So when anything of
// pass e + 2 is written, all have done with e. There are four places for each slot, and two would be enough.
#pragma once

#include <optional>
#include <vector>

#include "rdma_engine/transport/rc/ring_link.h"

namespace jaxina::rc {

class PlainRing final : public roce::MessageQueues {
 public:
  // The link must outlive this object.
  PlainRing(RingLink& link, const JobShape& shape, std::uint32_t worker);

  std::span<std::uint8_t> send_memory() override { return link_.send_memory(); }
  std::span<const std::uint8_t> receive_memory() const override { return link_.receive_memory(); }
  bool adopt(const std::function<ExportedMemory()>& allocate) override { return link_.adopt(allocate); }
  void post_write(std::size_t queue, std::span<const std::uint8_t> head, std::span<const std::uint8_t> tail,
                  std::uint64_t remote_address, std::uint32_t immediate) override;
  Status flush() override { return link_.flush(); }
  // Results, and messages that are not of this worker's pass. The session refuses those.
  Status poll(std::vector<Arrival>& arrivals) override;
  void wait(Nanoseconds timeout) override { link_.wait(timeout); }
  void interrupt() override { link_.interrupt(); }
  Status reset(std::size_t queue) override { return link_.reset(queue); }
  Counters counters() const override { return link_.counters(); }

 private:
  struct Slot {
    std::uint32_t epoch = 0;
    std::size_t exponents = 0;          // bytes, padded
    std::span<const std::uint8_t> own;  // this worker's message
    std::uint32_t fingerprint = 0;
    bool awaits_partial = false;
    std::optional<Arrival> partial;  // that came before this worker's own pass
  };
  // How many workers are before this one in the slot's pass.
  std::uint32_t position(std::size_t slot) const;
  RingPlace place(std::size_t slot, bool is_partial) const;
  bool is_mine(std::size_t slot, const Arrival& arrival) const;
  void on_partial(std::size_t slot, const Arrival& partial);
  void on_result(const Arrival& result);
  // Adds this worker's message to the partial sum, and sends on what comes out.
  void add_own(std::size_t slot);

  RingLink& link_;
  RingMemory layout_;
  std::uint32_t worker_, workers_;
  std::vector<Slot> slots_;
  std::vector<Arrival> came_;  // from the link
  std::vector<Arrival> for_session_;
};

}  // namespace jaxina::rc
