// What an aggregator says to a worker beside results: packets without words, the same for datagrams and RDMA.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "rdma_engine/aggregator/slot.h"
#include "rdma_engine/errors.h"
#include "rdma_engine/wire/packet.h"

namespace jaxina {

// Longest sentence that an abort carries, in bytes; longer ones are cut.
inline constexpr std::size_t kMaxReason = 512;

struct Notice {
  std::size_t size;
  std::array<std::uint8_t, wire::kHeaderSize + kMaxReason> bytes;
  std::span<const std::uint8_t> packet() const { return {bytes.data(), size}; }
};
static_assert(numerics::kMaxWorkers / 8 <= kMaxReason);

// There is no place for this update. The notice is smaller than what it answers, so a forged source address gains
// nothing. The secret goes back as it came: a worker takes no reply without it.
Notice refused_notice(const wire::Header& update, wire::Refusal refusal);
// This update is counted, as are those of `seen`.
Notice pending_notice(const wire::Header& update, const WorkerSet& seen, std::uint32_t workers);
// The job has ended.
Notice aborted_notice(std::uint32_t job, std::uint64_t secret, std::uint16_t slot, const Status& reason);

}  // namespace jaxina
