// Tests the loop that all endpoints on a network share, with a network that never falls silent: somebody floods the
// worker's socket with packets that are none of the job's.
#include "rdma_engine/transport/switched_endpoint.h"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "rdma_engine/base/clock.h"

namespace jaxina {
namespace {

constexpr Nanoseconds kWait = 50'000'000, kTooLong = 2'000'000'000;

JobShape shape() {
  return JobShape({.devices = 2, .workers = 2, .slots = 4, .block_size = 256, .blocks_per_chunk = 1});
}

// There always is something to receive, until the test has failed. All passes are lost.
class FloodedEndpoint final : public SwitchedEndpoint {
 public:
  FloodedEndpoint() : SwitchedEndpoint(shape(), {SwitchContact("switch")}, 1) {}
  Worker& worker() override { return worker_; }
  bool slept() const { return slept_; }

 private:
  Counters transport_counters() const override { return {}; }
  void send_ready() override {
    while (const std::optional<Pass> pass = worker_.next_pass(now())) on_sent(*pass);
  }
  bool receive() override { return now() < until_; }
  void sleep(Nanoseconds) override { slept_ = true; }
  void interrupt() override {}

  Worker worker_{{.shape = shape(), .timer = {.initial = 2'000'000}}};
  Nanoseconds until_ = now() + kTooLong;
  bool slept_ = false;
};

TEST(SwitchedEndpoint, AFloodStopsNeitherTheTimersNorTheWait) {
  FloodedEndpoint endpoint;
  std::vector<float> x(5000, 1.0f);
  endpoint.worker().submit({{{ElementType::kFloat32, x.size(), x.data(), x.data()}}});
  const Nanoseconds start = now();
  EXPECT_TRUE(endpoint.progress(kWait).ok());
  EXPECT_GE(now() - start, kWait);
  EXPECT_LT(now() - start, kTooLong / 2);
  EXPECT_GT(endpoint.worker().retransmissions(), 0u);
  EXPECT_FALSE(endpoint.slept());
}

}  // namespace
}  // namespace jaxina
