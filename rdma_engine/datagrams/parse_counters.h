// counter_of: where a packet that cannot be parsed is counted.
#pragma once

#include "rdma_engine/base/counters.h"
#include "rdma_engine/wire/packet.h"

namespace jaxina {

inline Counter counter_of(wire::ParseResult result) {
  switch (result) {
    case wire::ParseResult::kTruncated: return Counter::kTruncated;
    case wire::ParseResult::kForeign: return Counter::kForeign;
    case wire::ParseResult::kBadLength: return Counter::kBadLength;
    case wire::ParseResult::kCorrupt: return Counter::kCorrupt;
    case wire::ParseResult::kOk: break;
  }
  return Counter::kCount;
}

}  // namespace jaxina
