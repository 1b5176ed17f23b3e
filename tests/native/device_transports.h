// Groups of processes with devices that sum over roce.
#pragma once

#include "tests/native/device_fixture.h"
#include "tests/native/roce_fixture.h"

namespace jaxina::testing::nodes {

// Whole chunks mean that messages carry no check. So devices may write and read them in place.
inline std::vector<GroupConfig> roce_configs(const Processes& processes, RoceSwitch& roce_switch, double loss = 0,
                                             bool whole_chunks = true) {
  std::vector<GroupConfig> configs = configs_for(processes);
  for (GroupConfig& config : configs) {
    config.member.shape = job_for(processes, whole_chunks).shape;
    const std::uint32_t worker = config.member.worker;
    config.transport =
        RoceConfig{.address = "127.0.0.1",
                   .exchange = [&roce_switch, worker](const auto& end) { return roce_switch.connect(9, worker, end); },
                   .loss = {.share = loss, .seed = 5 + worker}};
  }
  return configs;
}

// Makes the words of all tensors that may have such words narrow.
inline Collective narrowed(Collective collective, numerics::WireWord word, numerics::Rounding rounding) {
  for (Tensor& tensor : collective.tensors) {
    if (numerics::may_be_narrow(tensor.type)) tensor.word = word;
  }
  collective.rounding = rounding;
  return collective;
}

}  // namespace jaxina::testing::nodes
