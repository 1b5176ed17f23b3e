// Trace: a readable timeline of one run, slot by slot, as in the example of Appendix A of the SwitchML paper.
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
  // To insert a line before those that follow from it, if its text is known only after them.
  std::size_t size() const { return lines_.size(); }
  void insert(std::size_t position, Nanoseconds time, std::uint32_t job, std::uint32_t slot, std::string text) {
    lines_.insert(lines_.begin() + static_cast<std::ptrdiff_t>(position), {time, job, slot, std::move(text)});
  }
  // The text of all timelines. A line that concerns every slot of a job appears in each slot's timeline.
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
