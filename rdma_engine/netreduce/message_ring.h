// MessageRing: the latest messages of one connection. Only a message's first packet says what it is. The packets that
// follow are known by the distance of their numbers from it, also if the sender goes back into the middle of a message.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace jaxina::netreduce {

struct RingMessage {
  std::uint64_t first = 0;  // the number of its first packet
  std::uint64_t packets = 0;
  std::uint16_t slot = 0;
  std::uint32_t epoch = 0;
  std::uint32_t begins_in_place = 0, length = 0;  // bytes
  bool has(std::uint64_t number) const { return number >= first && number - first < packets; }
};

// It keeps each slot's latest two messages. That is enough: a sender goes back to a message only while the receiver
// does not have it. So the receiver does not contribute to the slot's next pass, and nobody gets to the one after that.
class MessageRing {
 public:
  explicit MessageRing(std::size_t slots) : messages_(2 * slots) {}
  static std::size_t bytes_for(std::size_t slots) { return sizeof(MessageRing) + 2 * slots * sizeof(RingMessage); }

  void add(const RingMessage& message) { messages_[2 * std::size_t{message.slot} + message.epoch % 2] = message; }
  // The message that has this packet, or null if it is older than all that are kept.
  const RingMessage* find(std::uint64_t number) const {
    for (const RingMessage& message : messages_) {
      if (message.has(number)) return &message;
    }
    return nullptr;
  }

 private:
  std::vector<RingMessage> messages_;
};

}  // namespace jaxina::netreduce
