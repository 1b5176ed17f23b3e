// The books about a combining switch. The switch's counters say what it did with a packet; the books say what it must
// send then.
#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <vector>

#include "rdma_engine/combiner/combiner.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/packets.h"
#include "tests/fuzz/passes.h"
#include "tests/native/small_shape.h"

namespace jaxina::fuzz {

constexpr std::size_t kMaxWords = 8, kMaxExponents = 8;  // the most that a pass with an entry may have
constexpr std::size_t kJobCount = 3, kMaxChildren = 3;
constexpr std::uint8_t kServer = 6, kOtherServer = 7, kHosts = 8;
constexpr Nanoseconds kLifetime = 20;
constexpr std::uint16_t kGroup = wire::kFirstGroup;  // a group below this switch

// Three workers; a group and a worker of four workers, of which one is elsewhere; one worker of two.
inline const CombinedJobSpec kJobs[kJobCount] = {
    {.job = 1,
     .secret = 11,
     .shape = testing::SmallShape{.slots = 2, .block_size = 4, .blocks_per_chunk = 2}.of(3),
     .children = {{0, {0b001}}, {1, {0b010}}, {2, {0b100}}},
     .upstream = {address_of(kServer), address_of(kOtherServer)}},
    {.job = 2,
     .secret = 22,
     .shape = testing::SmallShape{.slots = 1, .block_size = 4, .blocks_per_chunk = 1}.of(4),
     .group = 1,
     .children = {{kGroup, {0b0011}}, {2, {0b0100}}},
     .upstream = {address_of(kServer)}},
    {.job = 3,
     .secret = 33,
     .shape = testing::SmallShape{.slots = 1, .block_size = 2, .blocks_per_chunk = 1}.of(2),
     .children = {{1, {0b10}}},
     .upstream = {address_of(kOtherServer)}},
};

inline bool same_pass(const wire::Header& a, const wire::Header& b) {
  return a.job == b.job && a.slot == b.slot && a.epoch == b.epoch && a.fingerprint == b.fingerprint &&
         a.words == b.words && a.exponents == b.exponents && a.format == b.format;
}

// What an entry of this pass must hold, if the pass has one.
struct Sum {
  wire::Header pass;
  Nanoseconds claimed = 0;
  std::uint32_t children = 0;  // a bit mask; 0: no entry
  bool marked = false;         // a packet of the pass came with a mark
  std::array<std::uint32_t, kMaxWords> words{};
  std::array<std::uint8_t, kMaxExponents> exponents{};
};

// Gives the switch packets, keeps the books, and compares what the switch sends with them.
class Books final : public PacketOutput {
 public:
  void begin();
  void end() const;
  void register_again(std::size_t job);
  void overflow() {
    combiner_.on_overflow();
    untold_.fill(true);
  }
  void wait(Nanoseconds time) { now_ += time; }
  void deliver(std::span<const std::uint8_t> packet, std::uint8_t from);
  void send(const Address& to, std::span<const std::uint8_t> packet) override;

 private:
  const CombinedJobSpec& spec() const { return kJobs[job_]; }
  bool is_result() const { return header_.kind == wire::Kind::kResult && header_.worker == wire::kAllWorkers; }
  std::uint32_t everybody() const { return (1u << spec().children.size()) - 1; }
  // How much a counter of the packet's job has grown since the packet came.
  std::uint64_t grown(Counter counter) const {
    return combiner_.find(spec().job)->counters()[counter] - before_[counter];
  }
  Sum& sum_of_pass();
  std::optional<std::size_t> sender() const;
  std::optional<std::size_t> way_to_worker() const;
  void book();
  void check_sent_on(const wire::Header& header, std::span<const std::uint8_t> packet) const;
  void check_sum(const wire::Header& header, std::span<const std::uint8_t> packet);
  void check_reply(const Address& to, const wire::Header& header, std::span<const std::uint8_t> packet);
  std::uint32_t receivers() const;

  // The code that a packet must have which would have this one if no port had a queue.
  std::uint8_t marked(std::uint8_t code) const {
    require(grown(Counter::kMarked) == 0 || (grown(Counter::kMarked) == 1 && !wire::is_marked(code)));
    return grown(Counter::kMarked) > 0 ? code | wire::kMarked : code;
  }

  // A port sends a packet in some nanoseconds.
  Combiner combiner_{{.table = {.entries = 3, .packet_bytes = wire::packet_size(kMaxWords, kMaxExponents)},
                      .lifetime = kLifetime,
                      .queues = {.bytes_per_second = 20e9, .threshold = 10}}};
  Nanoseconds now_ = 0;
  std::vector<Sum> sums_;
  std::array<std::array<Address, kMaxChildren>, kJobCount> contacts_{};
  std::array<bool, kJobCount> untold_{};              // the receive buffer has overflowed since the job's last result
  std::uint64_t delivered_ = 0, accounted_gone_ = 0;  // packets; those that registrations counted which are gone

  // The packet that the switch is handling.
  std::span<const std::uint8_t> packet_;
  wire::Header header_;
  Address from_;
  std::size_t job_ = 0;
  bool valid_ = false;  // it is of a job that is here, and has its secret
  bool booked_ = false;
  Counters before_;
  std::uint32_t sent_ = 0, told_ = 0;  // packets sent; children to which a reply went
};

}  // namespace jaxina::fuzz
