#include "rdma_engine/netreduce/ring_racks.h"

#include "rdma_engine/base/assert.h"

namespace jaxina::netreduce {

RackedRing cut_by_rack(const RingSpec& ring, std::span<const std::uint32_t> rack_of) {
  const std::size_t workers = ring.members.size();
  JAXINA_ASSERT(rack_of.size() == workers);
  RackedRing racked{.spine = ring, .leaves = {}};
  racked.spine.position = Position::kSpine;
  racked.spine.members.clear();
  // The ring's order begins behind a worker that leads to another rack, so each rack's last worker comes last.
  std::size_t start = 0;
  while (start < workers && rack_of[(start + workers - 1) % workers] == rack_of[start]) ++start;
  JAXINA_ASSERT(start < workers);
  for (std::size_t i = 0; i < workers; ++i) {
    const std::size_t worker = (start + i) % workers, next = (worker + 1) % workers;
    const auto [leaf, is_new] = racked.leaves.try_emplace(rack_of[worker], ring);
    if (is_new) {
      leaf->second.position = Position::kLeaf;
      leaf->second.members.clear();
      leaf->second.from_above = ring.members[(worker + workers - 1) % workers];
    } else if (rack_of[(worker + workers - 1) % workers] != rack_of[worker]) {
      throw Error(ErrorCode::kInvalidArgument,
                  "the workers of a rack must follow each other in the ring, but worker " + std::to_string(worker) +
                      " has others of its rack before it, and worker " +
                      std::to_string((worker + workers - 1) % workers) +
                      " of another rack between: give the workers of each rack consecutive ranks");
    }
    leaf->second.members.push_back(ring.members[worker]);
    if (rack_of[next] != rack_of[worker]) racked.spine.members.push_back(ring.members[worker]);
  }
  return racked;
}

}  // namespace jaxina::netreduce
