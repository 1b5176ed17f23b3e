// cut_by_rack: what the switches of racks, and the one above them, see of a ring. In a ring that is contiguous per
// rack, one connection leads out of each rack and one into it. So no packet is needed that a host would not send: the
// connection that leaves a rack carries the rack's sum up to the spine, and the total down to the next rack.
#pragma once

#include <cstdint>
#include <map>
#include <span>

#include "rdma_engine/netreduce/ring_spec.h"

namespace jaxina::netreduce {

struct RackedRing {
  RingSpec spine;
  std::map<std::uint32_t, RingSpec> leaves;  // by rack
};

// `ring` is as one switch alone would see it, and rack_of[i] is worker i's rack. There are two racks or more. Throws
// Error(kInvalidArgument) if a rack's workers do not follow each other in the ring.
RackedRing cut_by_rack(const RingSpec& ring, std::span<const std::uint32_t> rack_of);

}  // namespace jaxina::netreduce
