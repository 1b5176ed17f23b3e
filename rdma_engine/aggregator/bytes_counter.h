// Which counter has the bytes of a pass's words.
#pragma once

#include "rdma_engine/base/counters.h"
#include "rdma_engine/wire/packet.h"

namespace jaxina {

constexpr Counter bytes_counter(wire::Format format) {
  switch (format) {
    case wire::Format::kInt16: return Counter::kBytesOf16Bits;
    case wire::Format::kInt8: return Counter::kBytesOf8Bits;
    case wire::Format::kInt32:
    case wire::Format::kFlags: return Counter::kBytesOf32Bits;
  }
  return Counter::kBytesOf32Bits;
}

}  // namespace jaxina
