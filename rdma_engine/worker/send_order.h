// SendOrder: the latest transmissions on one path between a worker and its aggregator, in the order they were sent. It
// finds those that later ones have overtaken. A path is a route whose packets stay in order if none is lost: the way to
// one thread of a switch. Packets on different paths overtake each other all the time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace jaxina {

class SendOrder {
 public:
  // Remembers up to `room` transmissions.
  explicit SendOrder(std::size_t room) : sent_(room) {}

  // Records a transmission. Returns its number in the order.
  std::uint64_t add(std::uint16_t slot) {
    if (size_ == sent_.size()) pop();  // this happens when only timeouts send and nothing is answered
    sent_[(head_ + size_++) % sent_.size()] = {next_, slot};
    return next_++;
  }

  // The result of transmission `order` has come. Calls lost(slot) for every transmission that was sent `distance` or
  // more before it and for which awaited(slot, order) still holds, and forgets these.
  template <typename Awaited, typename Lost>
  void on_result(std::uint64_t order, std::uint32_t distance, Awaited awaited, Lost lost) {
    answered_ = std::max(answered_, order + 1);
    while (size_ > 0) {
      const Transmission oldest = sent_[head_];
      const bool waits = awaited(oldest.slot, oldest.order);
      if (waits && oldest.order + distance > order) return;
      pop();
      if (waits) lost(oldest.slot);
    }
  }

  // Whether a result has come of a transmission after this one.
  bool answered_after(std::uint64_t order) const { return answered_ > order + 1; }

 private:
  struct Transmission {
    std::uint64_t order;
    std::uint16_t slot;
  };
  void pop() {
    head_ = (head_ + 1) % sent_.size();
    --size_;
  }

  std::vector<Transmission> sent_;  // ring, oldest first
  std::size_t head_ = 0, size_ = 0;
  std::uint64_t next_ = 0;
  std::uint64_t answered_ = 0;  // one more than the highest order that a result has come for
};

}  // namespace jaxina
