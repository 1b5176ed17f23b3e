// A job's slots: control state and payload, all allocated when the job is added.
#pragma once

#include <vector>

#include "rdma_engine/aggregator/aggregator.h"

namespace jaxina {

struct Aggregator::Job {
  explicit Job(const JobSpec& s);

  // The payload of one version. While updates come in, the words are in host byte order; when the pass completes they
  // are turned round and the header is written, so that the buffer is the result packet, ready to be sent again.
  std::uint8_t* packet(std::uint32_t slot, std::uint32_t epoch) { return &payload[(2 * slot + (epoch & 1)) * stride]; }

  struct Size { std::uint16_t words = 0; std::uint8_t exponents = 0; };
  Size& size(std::uint32_t slot, std::uint32_t epoch) { return sizes[2 * slot + (epoch & 1)]; }

  JobSpec spec;
  std::size_t stride;
  std::vector<SlotState> slots;
  std::vector<Size> sizes;
  std::vector<std::uint8_t> payload;
  // Where each worker's latest counted update came from, so that replays divert nothing, and its slot, by which a worker
  // knows which of several switch threads may speak to it. The address is empty until then.
  struct Heard {
    Address address;
    std::uint16_t slot = 0;
  };
  std::vector<Heard> workers;
  Status aborted;                  // why the job ended, or ok
  JobCounters counters;
  Rejects rejects{};
};

}  // namespace jaxina
