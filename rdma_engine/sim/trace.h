// A readable timeline of one run, slot by slot, as in the example of SwitchML's Appendix A.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "rdma_engine/worker/retransmission_timer.h"

namespace jaxina::sim {

class Trace {
 public:
  static constexpr std::uint32_t kEverySlot = 0xffffffff;

  void add(Nanoseconds time, std::uint32_t job, std::uint32_t slot, std::string text) {
    lines_.push_back({time, job, slot, std::move(text)});
  }
  // For a line whose text is known only after the lines that follow from it.
  std::size_t size() const { return lines_.size(); }
  void insert(std::size_t position, Nanoseconds time, std::uint32_t job, std::uint32_t slot, std::string text) {
    lines_.insert(lines_.begin() + static_cast<std::ptrdiff_t>(position), {time, job, slot, std::move(text)});
  }
  // What concerns every slot of a job stands in each slot's timeline.
  std::string text() const;

 private:
  struct Line {
    Nanoseconds time;
    std::uint32_t job, slot;
    std::string text;
  };
  std::vector<Line> lines_;
};

}  // namespace jaxina::sim
