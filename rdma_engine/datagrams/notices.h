// Notices: packets without words that an aggregator sends to a worker besides results. Datagrams and RDMA use the same
// ones.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "rdma_engine/aggregator/slot.h"
#include "rdma_engine/errors.h"
#include "rdma_engine/wire/packet.h"

namespace jaxina {

// The longest reason that an abort notice carries, in bytes. Longer ones are cut between two characters.
inline constexpr std::size_t kMaxReason = 512;

struct Notice {
  std::size_t size;
  std::array<std::uint8_t, wire::kHeaderSize + kMaxReason> bytes;
  std::span<const std::uint8_t> packet() const { return {bytes.data(), size}; }
};
static_assert(numerics::kMaxWorkers / 8 <= kMaxReason);

// The update cannot be accepted. The notice is smaller than the update it answers, so it cannot be used to amplify
// traffic to a forged source address. It returns the update's secret unchanged, because a worker ignores replies
// without its secret.
Notice refused_notice(const wire::Header& update, wire::Refusal refusal);
// The pass is incomplete. It has the updates of the workers in `seen`. `code` is 0, wire::kCameDirectly or
// wire::kCameAlone.
Notice pending_notice(const wire::Header& update, const WorkerSet& seen, std::uint32_t workers, std::uint8_t code = 0);
// The job has ended.
Notice aborted_notice(std::uint32_t job, std::uint64_t secret, std::uint16_t slot, const Status& reason);

}  // namespace jaxina
