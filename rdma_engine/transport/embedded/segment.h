// Segment: the slot pool in shared memory, with what its workers need to know of each other. A named segment connects
// processes, an unnamed one the devices of one process.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "rdma_engine/aggregator/slot.h"
#include "rdma_engine/transport/embedded/futex.h"
#include "rdma_engine/transport/transport_config.h"

namespace jaxina::embedded {

// The structs below are in memory that several processes map. They must not contain pointers.
enum class Presence : std::uint32_t { kAbsent, kJoined, kLeft };

struct Member {
  std::atomic<std::uint32_t> presence;
  std::atomic<std::int32_t> process;  // process id in its own PID namespace, for messages
};

struct alignas(64) SharedSlot {
  static constexpr std::uint32_t kNobody = 0xffff'ffff;
  Lock lock;
  std::atomic<std::uint32_t> holder;  // who holds the lock, for messages
  SlotState state;
  alignas(64) std::array<Event, 2> done;  // per version: the epoch that is complete
  std::uint8_t exponents[2][wire::kMaxBlocksPerChunk];
};

struct SegmentHeader {
  std::uint64_t secret;
  JobShape shape;
  std::atomic<std::uint32_t> ready;  // set last by the creator
  Event joined;                      // how many members have joined
  std::atomic<std::uint32_t> ended;  // an ErrorCode, if the job has ended early
  Lock reason_lock;
  char reason[512];
};

class Segment {
 public:
  // Worker 0 creates the job's segment and the others attach to it; an unnamed segment is shared within the process.
  // Throws Error.
  static std::shared_ptr<Segment> open(const Membership& member, const EmbeddedConfig& config);
  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  SegmentHeader& header() { return *reinterpret_cast<SegmentHeader*>(base_); }
  Member& member(std::uint32_t worker) { return reinterpret_cast<Member*>(base_ + members_offset_)[worker]; }
  SharedSlot& slot(std::uint32_t index) { return reinterpret_cast<SharedSlot*>(base_ + slots_offset_)[index]; }
  std::uint32_t* words(std::uint32_t slot, std::uint32_t epoch) {
    return reinterpret_cast<std::uint32_t*>(base_ + words_offset_) +
           (2 * std::size_t{slot} + (epoch & 1)) * words_stride_;
  }

  // The words of all slots.
  std::span<const std::byte> words() const { return {base_ + words_offset_, size_ - words_offset_}; }

  // Claims the worker's place and waits until all workers have joined. Throws Error(kRankTaken, kNeverJoined,
  // kWorkerLost), or what `gives_up` returns.
  void join(const Membership& member);
  void leave(std::uint32_t worker);

  // Whether the process that joined as this (other) worker still runs. A process holds a lock on its byte of the file;
  // the kernel releases it when the process ends, whatever its PID namespace.
  bool is_alive(std::uint32_t worker) const;

  // Ends the job for all workers. Returns the reason; if the job had ended before, the first reason.
  Status end(const Status& reason);
  Status ended();

 private:
  explicit Segment(const JobShape& shape);
  friend struct SegmentFiles;
  void map_private();
  void open_file(const std::string& name, int flags);
  void close_file();
  void hold_place(std::uint32_t worker);
  void create_named(const std::string& name);
  void attach_named(const Membership& member, const std::string& name);
  void map_file(int file, const char* name);
  void initialize(const Membership& member);
  void remove_name();

  std::byte* base_ = nullptr;
  std::size_t members_offset_, slots_offset_, words_offset_, words_stride_, size_;
  std::string name_;  // the name to unlink, or empty
  // The open file, -1 for an unnamed segment. One lock on it says that the segment is in use, another that the worker
  // is alive.
  int file_ = -1;
};

// Removes segments that no process uses any more, because their creator was killed before everybody had joined.
void remove_orphaned_segments();

}  // namespace jaxina::embedded
