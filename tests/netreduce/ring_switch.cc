// Usage: ring_switch INTERFACE... Stands between the guests that are behind these interfaces, as a transparent switch.
// Each guest's worker tells it its queue pairs (ring_guest), and learns its neighbours'. On SIGTERM it prints what it
// has summed.
#include <poll.h>
#include <sys/signalfd.h>

#include <csignal>
#include <cstdio>
#include <vector>

#include "rdma_engine/switch/frame_switch.h"
#include "tests/netreduce/ring_job.h"

using namespace jaxina;
using namespace jaxina::guest;

int main(int argc, char** argv) try {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  FrameSwitch frames(std::vector<std::string>(argv + 1, argv + argc));
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in own = switch_address();
  if (bind(listener, reinterpret_cast<const sockaddr*>(&own), sizeof(own)) != 0 || listen(listener, 4) != 0)
    fail("bind");
  std::vector<int> guests(kGuests);
  std::vector<roce::ConnectionEnd> ends(kGuests);
  for (std::uint32_t come = 0; come < kGuests; ++come) {
    const int guest = accept(listener, nullptr, nullptr);
    std::istringstream line(receive_line(guest));
    std::uint32_t worker = 0;
    line >> worker;
    ends.at(worker) = end_in(line);
    guests[worker] = guest;
  }
  const JobSpec job = two_guests_job();
  frames.add_ring(job.job, job.shape, ends);
  for (std::uint32_t worker = 0; worker < kGuests; ++worker) {
    std::string next = text_of(ends[(worker + 1) % kGuests]);
    next.back() = ' ';
    send_text(guests[worker], next + text_of(ends[(worker + kGuests - 1) % kGuests]));
  }
  for (const int guest : guests) static_cast<void>(receive_line(guest));
  for (const int guest : guests) send_text(guest, "begin\n");
  pollfd ended{signalfd(-1, &signals, 0), POLLIN, 0};
  poll(&ended, 1, -1);
  const Counters of_ring = frames.statistics().jobs.at(job.job);
  const auto number = [](std::uint64_t value) { return static_cast<unsigned long long>(value); };
  std::printf("  the switch added %llu messages to %llu sums; copies %llu, wrong ICRC %llu\n",
              number(of_ring[Counter::kUpdates]), number(of_ring[Counter::kResults]),
              number(of_ring[Counter::kDuplicates]), number(of_ring[Counter::kRdmaWrongIcrc]));
  return of_ring[Counter::kUpdates] == kGuests * of_ring[Counter::kResults] && of_ring[Counter::kResults] > 0 ? 0 : 1;
} catch (const Error& error) {
  std::printf("  %s\n", error.what());
  return 1;
}
