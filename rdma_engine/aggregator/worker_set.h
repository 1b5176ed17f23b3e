// WorkerSet: a set of a job's workers, one bit each.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "rdma_engine/numerics/block_fixed_point.h"

namespace jaxina {

using WorkerSet = std::array<std::uint64_t, numerics::kMaxWorkers / 64>;

inline bool contains(const WorkerSet& set, std::uint32_t worker) { return set[worker / 64] >> (worker % 64) & 1; }
inline void insert(WorkerSet& set, std::uint32_t worker) { set[worker / 64] |= std::uint64_t{1} << (worker % 64); }
inline void unite(WorkerSet& set, const WorkerSet& other) {
  for (std::size_t i = 0; i < set.size(); ++i) set[i] |= other[i];
}
inline std::uint32_t size_of(const WorkerSet& set) {
  int size = 0;
  for (const std::uint64_t bits : set) size += std::popcount(bits);
  return static_cast<std::uint32_t>(size);
}
// The lowest worker of a set that is not empty.
inline std::uint32_t lowest(const WorkerSet& set) {
  std::uint32_t worker = 0;
  while (!contains(set, worker)) ++worker;
  return worker;
}

enum class Relation : std::uint8_t { kDisjoint, kInside, kAround, kOverlaps };
// How `a` lies to `b`; neither is empty. Equal sets are kInside.
inline Relation relation_of(const WorkerSet& a, const WorkerSet& b) {
  bool common = false, only_a = false, only_b = false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    common |= (a[i] & b[i]) != 0;
    only_a |= (a[i] & ~b[i]) != 0;
    only_b |= (b[i] & ~a[i]) != 0;
  }
  if (!common) return Relation::kDisjoint;
  if (!only_a) return Relation::kInside;
  return only_b ? Relation::kOverlaps : Relation::kAround;
}

}  // namespace jaxina
