#include "rdma_engine/sim/trace.h"

#include <cstdio>
#include <set>
#include <utility>

namespace jaxina::sim {

std::string Trace::text() const {
  std::set<std::pair<std::uint32_t, std::uint32_t>> slots;
  for (const Line& line : lines_) {
    if (line.slot != kEverySlot) slots.emplace(line.job, line.slot);
  }
  std::string text;
  for (const auto& [job, slot] : slots) {
    text += "\njob " + std::to_string(job) + ", slot " + std::to_string(slot) + "\n";
    for (const Line& line : lines_) {
      if (line.job != job || (line.slot != slot && line.slot != kEverySlot)) continue;
      char time[32];
      std::snprintf(time, sizeof(time), "%12.3f us  ", static_cast<double>(line.time) / 1000);
      text += time + line.text + "\n";
    }
  }
  return text;
}

}  // namespace jaxina::sim
