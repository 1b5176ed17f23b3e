// MarkOracle: knows which packets came with a mark to a switch or server, to find marks that were made up.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <tuple>
#include <utility>

#include "rdma_engine/datagrams/packet_output.h"
#include "rdma_engine/wire/packet.h"

namespace jaxina::sim {

class MarkOracle {
 public:
  void arrived(std::uint16_t node, const wire::Header& header) {
    if (!carries_mark(header)) return;
    come_.insert(key(node, header));
    ++unrepeated_[{node, header.job}];
  }
  // Whether a packet of the same pass, and in the same direction, has come to the node with a mark.
  bool has_come(std::uint16_t node, const wire::Header& header) const { return come_.contains(key(node, header)); }

  // Whether a server may send this result with a mark: the first time only if an update has come with one since the
  // job's latest result that had a mark.
  bool may_repeat(std::uint16_t server, const wire::Header& result) {
    if (!repeated_.insert(key(server, result)).second) return true;
    return std::exchange(unrepeated_[{server, result.job}], 0) > 0;
  }

  // Passes packets on, and calls check(header) for each that is marked.
  template <typename Check>
  class Output final : public PacketOutput {
   public:
    Output(PacketOutput& output, Check check) : output_(output), check_(std::move(check)) {}
    void send(const Address& to, std::span<const std::uint8_t> packet) override {
      wire::Header header;
      if (wire::parse(packet, header) == wire::ParseResult::kOk && carries_mark(header)) check_(header);
      output_.send(to, packet);
    }

   private:
    PacketOutput& output_;
    Check check_;
  };

 private:
  using Key = std::tuple<std::uint16_t, bool, std::uint32_t, std::uint64_t, std::uint16_t, std::uint32_t>;
  static Key key(std::uint16_t node, const wire::Header& header) {
    return {node, header.kind == wire::Kind::kResult, header.job, header.secret, header.slot, header.epoch};
  }
  // The code of other packets is something else.
  static bool carries_mark(const wire::Header& header) {
    return (header.kind == wire::Kind::kResult || !wire::is_reply(header.kind)) && wire::is_marked(header.code);
  }

  std::set<Key> come_, repeated_;
  std::map<std::pair<std::uint16_t, std::uint32_t>, std::uint64_t> unrepeated_;
};

}  // namespace jaxina::sim
