// Event, Interrupt and Lock: waiting on a word of shared memory. A waiter first spins, then sleeps in the kernel
// (futex). Works across processes.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstdint>

#include "rdma_engine/base/clock.h"

namespace jaxina::embedded {

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

class Interrupt;

// A word and the threads that wait for it to reach a value. Because it counts sleepers, set() needs no system call if
// there are none.
struct Event {
  std::atomic<std::uint32_t> value;
  std::atomic<std::uint32_t> rings;  // sleepers sleep on this word and check the value again after each change
  std::atomic<std::uint32_t> sleepers;

  void set(std::uint32_t v) {
    value.store(v, std::memory_order_seq_cst);
    if (sleepers.load(std::memory_order_seq_cst) > 0) ring();
  }
  void ring() {
    rings.fetch_add(1, std::memory_order_seq_cst);
    futex_wake_all(rings);
  }

  // Waits until value == wanted, and returns true. Returns false after `duration`, or earlier if interrupted.
  bool wait(std::uint32_t wanted, int spins, Nanoseconds duration, Interrupt* interrupt = nullptr);
};

// Lets another thread of this process interrupt a thread that waits for events.
class Interrupt {
 public:
  // The event that the thread waits for must still exist.
  void raise() {
    raised_.store(true, std::memory_order_seq_cst);
    if (Event* event = sleeps_on_.load(std::memory_order_seq_cst)) event->ring();
  }
  bool raised() const { return raised_.load(std::memory_order_seq_cst); }
  // Clears the interrupt. Returns whether it was raised.
  bool take() { return raised_.exchange(false, std::memory_order_acquire); }

 private:
  friend struct Event;
  std::atomic<bool> raised_{false};
  std::atomic<Event*> sleeps_on_{nullptr};
};

inline bool Event::wait(std::uint32_t wanted, int spins, Nanoseconds duration, Interrupt* interrupt) {
  for (int i = 0; i < spins; ++i) {
    if (value.load(std::memory_order_acquire) == wanted) return true;
    relax();
  }
  const Nanoseconds deadline = now() + duration;
  // A setter or raiser either sees this sleeper and rings, or it wrote before the value and the flag are read below.
  sleepers.fetch_add(1, std::memory_order_seq_cst);
  if (interrupt != nullptr) interrupt->sleeps_on_.store(this, std::memory_order_seq_cst);
  bool reached = false;
  while (true) {
    const std::uint32_t seen = rings.load(std::memory_order_seq_cst);
    reached = value.load(std::memory_order_seq_cst) == wanted;
    const Nanoseconds left = deadline - now();
    if (reached || left <= 0 || (interrupt != nullptr && interrupt->raised())) break;
    futex_wait(rings, seen, left);
  }
  if (interrupt != nullptr) interrupt->sleeps_on_.store(nullptr, std::memory_order_seq_cst);
  sleepers.fetch_sub(1, std::memory_order_seq_cst);
  return reached;
}

// A mutex in shared memory. acquire() gives up after a while, so that the death of the holder can be noticed.
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
  // Does not wait.
  bool try_acquire() {
    std::uint32_t free = kFree;
    return word_.compare_exchange_strong(free, kHeld, std::memory_order_acquire);
  }
  void release() {
    if (word_.exchange(kFree, std::memory_order_release) == kContended) futex_wake_all(word_);
  }

 private:
  static constexpr std::uint32_t kFree = 0, kHeld = 1, kContended = 2;
  std::atomic<std::uint32_t> word_{kFree};
};

}  // namespace jaxina::embedded
