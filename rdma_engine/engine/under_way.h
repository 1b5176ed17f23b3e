// UnderWay: which collectives the devices of a group have submitted, and which of them have not completed. So a process
// that waits can learn which other process has not come. All methods are thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "rdma_engine/base/clock.h"

namespace jaxina {

class UnderWay {
 public:
  struct Waiting {
    std::uint64_t number;    // the device's collectives in the group count from 1
    std::uint64_t identity;  // see Collective::identity
    Nanoseconds since;
  };
  struct Device {
    std::uint32_t index;            // in the group
    std::uint64_t submitted = 0;    // how many collectives it has submitted
    std::optional<Waiting> oldest;  // of those that have not completed
  };

  void begin(std::uint32_t index, std::uint64_t identity);
  // The oldest collective of the device has completed. A device's collectives complete in the order of submission.
  void end(std::uint32_t index);

  std::vector<Device> devices() const;

 private:
  struct Collectives {
    std::uint64_t submitted = 0;
    std::deque<Waiting> waiting;
  };
  mutable std::mutex mutex_;
  std::map<std::uint32_t, Collectives> devices_;
};

}  // namespace jaxina
