// An RDMA Write with Immediate, as it leaves.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "rdma_engine/base/address.h"

namespace jaxina::roce {

// Where a write goes and what it carries. The payload may lie in two parts.
struct Write {
  Address peer;
  std::uint32_t qpn = 0;
  std::uint32_t rkey = 0;
  std::uint64_t address = 0;
  std::uint32_t immediate = 0;
  std::span<const std::uint8_t> head, tail;
  std::size_t size() const { return head.size() + tail.size(); }
};

}  // namespace jaxina::roce
