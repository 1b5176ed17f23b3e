// EntryTable: the entries of a combining switch, with the memory of their sums. All jobs share it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "rdma_engine/aggregator/pass_sum.h"
#include "rdma_engine/base/time.h"
#include "rdma_engine/combiner/entry.h"
#include "rdma_engine/wire/packet.h"

namespace jaxina {

struct EntryTableSize {
  std::uint32_t entries = 0;     // 0: the switch combines nothing and only sends packets on
  std::size_t packet_bytes = 0;  // the largest packet whose pass may have an entry, a multiple of 4
};

// The smallest prime number that is at least `number`; 0 and 1 are returned as they are. A table should have a prime
// number of entries. Slots with the same remainder go to one server, and through one thread of a switch. If their
// number divides that of the entries, each entry has slots of one remainder only. Then a thread uses a part of its
// table. And passes that wait for a server whose link is full hold just the entries that its other passes need, so
// these go one by one, and the link stays full while others are idle (docs/atp.md).
constexpr std::uint32_t prime_entries(std::uint32_t number) {
  const auto is_prime = [](std::uint32_t n) {
    for (std::uint64_t divisor = 2; divisor * divisor <= n; ++divisor) {
      if (n % divisor == 0) return false;
    }
    return true;
  };
  while (!is_prime(number)) ++number;
  return number;
}

class EntryTable {
 public:
  // Does not touch the sums' memory, so the system provides it at first use. Throws std::bad_alloc.
  EntryTable(const EntryTableSize& size, Nanoseconds lifetime)
      : size_(size),
        lifetime_(lifetime),
        entries_(size.entries),
        sums_(std::make_unique_for_overwrite<std::uint8_t[]>(size.entries * size.packet_bytes)) {}

  const EntryTableSize& size() const { return size_; }
  Nanoseconds lifetime() const { return lifetime_; }

  // The index of a pass's entry. The slots of one job have entries of their own, if there are enough. Jobs that were
  // registered one after the other begin far from each other: the number's fraction of the golden ratio is spread over
  // the table (Fibonacci hashing; Knuth, The Art of Computer Programming, volume 3, 6.4).
  std::size_t index_of(const PassId& pass) const {
    const std::uint64_t fraction = (pass.job * std::uint64_t{0x9e3779b97f4a7c15}) >> 32;
    const std::uint64_t first = (fraction * entries_.size()) >> 32;
    return (first + pass.slot) % entries_.size();
  }
  Entry& operator[](std::size_t index) { return entries_[index]; }
  // The memory of the entry's sum, as a packet: headroom for the header, the exponents, the words.
  std::uint8_t* packet(std::size_t index) { return sums_.get() + index * size_.packet_bytes; }
  PassSum sum(std::size_t index, std::size_t exponents) {
    return {wire::words_of(packet(index), exponents), wire::exponents_of(packet(index))};
  }

  // Calls visit(pass) for each entry that no pass but its own may have now.
  template <typename Visit>
  void for_each_held(Nanoseconds now, Visit visit) const {
    for (const Entry& entry : entries_) {
      if (is_held(entry, now, lifetime_)) visit(entry.pass);
    }
  }
  // Frees all entries of a job.
  void free_job(std::uint32_t job) {
    for (Entry& entry : entries_) {
      if (entry.count > 0 && entry.pass.job == job) entry.count = 0;
    }
  }

 private:
  EntryTableSize size_;
  Nanoseconds lifetime_;
  std::vector<Entry> entries_;
  std::unique_ptr<std::uint8_t[]> sums_;
};

}  // namespace jaxina
