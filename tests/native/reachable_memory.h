// The memory besides tensors that the fake devices of the process can reach: memory that they allocated or exported,
// and memory that was shared with them.
#pragma once

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>

namespace jaxina::testing {

class ReachableMemory {
 public:
  enum class Kind { kAllocated, kShared, kExported };

  static ReachableMemory& instance() {
    static ReachableMemory memory;
    return memory;
  }

  // Adds memory. False if it has a page in common with memory that was shared before, because a page is locked only
  // once.
  bool add(const void* begin, std::size_t bytes, Kind kind) {
    const Range range = range_of(begin, bytes);
    const std::lock_guard guard(mutex_);
    for (const auto& [other, kind_of_other] : ranges_) {
      const bool same_page =
          page_of(range.begin) <= page_of(other.end - 1) && page_of(other.begin) <= page_of(range.end - 1);
      if (kind == Kind::kShared && kind_of_other == Kind::kShared && same_page) return false;
    }
    ranges_.emplace(range, kind);
    return true;
  }
  void remove(const void* begin) {
    const std::lock_guard guard(mutex_);
    for (auto range = ranges_.begin(); range != ranges_.end(); ++range) {
      if (range->first.begin == reinterpret_cast<std::uintptr_t>(begin)) {
        ranges_.erase(range);
        return;
      }
    }
  }
  // Returns the kind of the memory in which all of these bytes lie, or nothing if no device reaches them.
  std::optional<Kind> find(const void* begin, std::size_t bytes) {
    const Range wanted = range_of(begin, bytes);
    const std::lock_guard guard(mutex_);
    for (const auto& [range, kind] : ranges_) {
      if (range.begin <= wanted.begin && wanted.end <= range.end) return kind;
    }
    return std::nullopt;
  }

 private:
  struct Range {
    std::uintptr_t begin, end;
    bool operator<(const Range& other) const { return begin < other.begin; }
  };
  static Range range_of(const void* begin, std::size_t bytes) {
    const auto first = reinterpret_cast<std::uintptr_t>(begin);
    return {first, first + bytes};
  }
  static std::uintptr_t page_of(std::uintptr_t address) {
    return address / static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  }

  std::mutex mutex_;
  std::map<Range, Kind> ranges_;
};

}  // namespace jaxina::testing
