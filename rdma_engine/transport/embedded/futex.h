// Waiting on a word of shared memory: spin a little, then sleep in the kernel. Works across processes.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstdint>

#include "rdma_engine/worker/retransmission_timer.h"

namespace jaxina::embedded {

inline Nanoseconds now() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return Nanoseconds{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// Sleeps while word == expected, at most `duration`; may return early.
inline void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t expected, Nanoseconds duration) {
  if (duration <= 0) return;
  const timespec t{static_cast<time_t>(duration / 1'000'000'000), static_cast<long>(duration % 1'000'000'000)};
  syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAIT, expected, &t, nullptr, 0);
}

inline void futex_wake_all(std::atomic<std::uint32_t>& word) {
  syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

// A word that somebody waits to see reach a value. The count of sleepers spares the waker a system call.
struct Event {
  std::atomic<std::uint32_t> value;
  std::atomic<std::uint32_t> sleepers;

  void set(std::uint32_t v) {
    value.store(v, std::memory_order_seq_cst);
    if (sleepers.load(std::memory_order_seq_cst) > 0) futex_wake_all(value);
  }

  // True once value == wanted; false after `duration`.
  bool wait(std::uint32_t wanted, int spins, Nanoseconds duration) {
    for (int i = 0; i < spins; ++i) {
      if (value.load(std::memory_order_acquire) == wanted) return true;
      relax();
    }
    const Nanoseconds deadline = now() + duration;
    sleepers.fetch_add(1, std::memory_order_seq_cst);
    bool reached = false;
    while (true) {
      const std::uint32_t seen = value.load(std::memory_order_seq_cst);
      reached = seen == wanted;
      const Nanoseconds left = deadline - now();
      if (reached || left <= 0) break;
      futex_wait(value, seen, left);
    }
    sleepers.fetch_sub(1, std::memory_order_seq_cst);
    return reached;
  }
};

// A mutex in shared memory that gives up after a while, so that a holder's death can be noticed.
class Lock {
 public:
  bool acquire(int spins, Nanoseconds duration) {
    for (int i = 0; i <= spins; ++i) {
      std::uint32_t free = kFree;
      if (word_.compare_exchange_weak(free, kHeld, std::memory_order_acquire)) return true;
      relax();
    }
    const Nanoseconds deadline = now() + duration;
    while (word_.exchange(kContended, std::memory_order_acquire) != kFree) {
      const Nanoseconds left = deadline - now();
      if (left <= 0) return false;
      futex_wait(word_, kContended, left);
    }
    return true;
  }
  void release() {
    if (word_.exchange(kFree, std::memory_order_release) == kContended) futex_wake_all(word_);
  }

 private:
  static constexpr std::uint32_t kFree = 0, kHeld = 1, kContended = 2;
  std::atomic<std::uint32_t> word_{kFree};
};

}  // namespace jaxina::embedded
