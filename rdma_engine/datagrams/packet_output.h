// PacketOutput: takes the datagrams that aggregators and switches send.
#pragma once

#include <cstdint>
#include <span>

#include "rdma_engine/base/address.h"

namespace jaxina {

class PacketOutput {
 public:
  virtual ~PacketOutput() = default;
  // The bytes are valid only during the call.
  virtual void send(const Address& to, std::span<const std::uint8_t> packet) = 0;
};

}  // namespace jaxina
