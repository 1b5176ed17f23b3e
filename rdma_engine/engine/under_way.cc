#include "rdma_engine/engine/under_way.h"

namespace jaxina {

void UnderWay::begin(std::uint32_t index, std::uint64_t identity) {
  const Nanoseconds since = now();
  const std::lock_guard lock(mutex_);
  Collectives& device = devices_[index];
  device.waiting.push_back({++device.submitted, identity, since});
}

void UnderWay::end(std::uint32_t index) {
  const std::lock_guard lock(mutex_);
  devices_[index].waiting.pop_front();
}

std::vector<UnderWay::Device> UnderWay::devices() const {
  const std::lock_guard lock(mutex_);
  std::vector<Device> result;
  for (const auto& [index, device] : devices_) {
    result.push_back({index, device.submitted, {}});
    if (!device.waiting.empty()) result.back().oldest = device.waiting.front();
  }
  return result;
}

}  // namespace jaxina
