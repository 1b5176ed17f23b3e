// Usage: ring_guest WORKER. A worker of a ring in a guest of its own, with Soft-RoCE. It tells the switch's program
// (ring_switch) its queue pairs, sums through the switch, and exits with 0 if every element is right.
#include <cstdlib>
#include <sstream>

#include "rdma_engine/transport/rc/ring_endpoint.h"
#include "rdma_engine/transport/verbs/verbs_ring.h"
#include "tests/netreduce/ring_job.h"
#include "tests/verbs/expect.h"
#include "tests/verbs/sums.h"

using namespace jaxina;
using namespace jaxina::guest;

int main(int argc, char** argv) try {
  const auto worker = static_cast<std::uint32_t>(std::atoi(argc > 1 ? argv[1] : "0"));
  const JobSpec job = two_guests_job();
  auto link = std::make_unique<verbs::VerbsRing>(
      verbs::RingOptions{.device = {}, .address = "", .mtu = 1024, .first_psn = 0xffffc0}, job.shape);
  const int told = connect_to_switch();
  send_text(told, std::to_string(worker) + " " + text_of(link->local()));
  std::istringstream reply(receive_line(told));
  roce::RingNeighbours neighbours;
  neighbours.next = end_in(reply);
  neighbours.previous = end_in(reply);
  link->connect(neighbours);
  send_text(told, "connected\n");
  expect(receive_line(told) == "begin", "the other guest is connected, too");
  {
    const auto endpoint = rc::make_ring_endpoint(member_of(job, worker), std::move(link), false);
    for (const std::size_t count : {std::size_t{100}, std::size_t{500'000}, std::size_t{3}}) {
      Sum sum(kGuests, count);
      sum.submit(worker, *endpoint);
      const Status status = run_to_end(*endpoint);
      if (!status.ok()) std::printf("  %s\n", status.text().c_str());
      expect(status.ok() && sum.wrong_of(worker) == 0, "every element is right");
      std::printf("  worker %u: %zu elements, %zu wrong\n", worker, count, sum.wrong_of(worker));
    }
  }
  std::fflush(stdout);
  return failures == 0 ? 0 : 1;
} catch (const Error& error) {
  std::printf("  %s\n", error.what());
  return 1;
}
