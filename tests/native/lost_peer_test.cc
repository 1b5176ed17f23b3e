// Tests who is taken for lost in shared memory, while the others go on between one question and the next.
#include "rdma_engine/transport/embedded/lost_peer.h"

#include <gtest/gtest.h>

#include <vector>

namespace jaxina::embedded {
namespace {

// Worker 1, as worker 0 sees it. It contributes and leaves, and its process ends, just before the question with the
// number `ends_before`, counted from 0.
struct Peer {
  int ends_before, asked = 0;
  bool has_ended() { return asked++ >= ends_before; }
};

// Whatever worker 0 knows before worker 1 leaves in order, it must not take that together with what it learns after.
TEST(LostPeer, AWorkerThatLeavesInOrderIsNotLost) {
  for (int ends_before = 0; ends_before < 5; ++ends_before) {
    Peer peer{ends_before};
    const auto lost = find_lost_peer(
        2, 0, [&](std::uint32_t) { return peer.has_ended(); },
        [&] { return peer.has_ended() ? std::vector<std::uint32_t>{} : std::vector<std::uint32_t>{1}; },
        [&](std::uint32_t) { return !peer.has_ended(); });
    EXPECT_FALSE(lost) << "ended before question " << ends_before << (lost && lost->left ? ": left" : ": died");
  }
}

TEST(LostPeer, AWorkerThatLeftWithoutItsContributionIsLost) {
  const auto lost = find_lost_peer(
      3, 0, [](std::uint32_t worker) { return worker == 1; }, [] { return std::vector<std::uint32_t>{1, 2}; },
      [](std::uint32_t worker) { return worker == 2; });
  ASSERT_TRUE(lost);
  EXPECT_EQ(lost->worker, 1u);
  EXPECT_TRUE(lost->left);
}

TEST(LostPeer, AWorkerThatDiedIsLostWhetherItIsWaitedForOrNot) {
  for (const std::vector<std::uint32_t>& missing : {std::vector<std::uint32_t>{}, {2}}) {
    const auto lost = find_lost_peer(
        3, 0, [](std::uint32_t worker) { return worker == 1; }, [&] { return missing; },
        [](std::uint32_t) { return false; });
    ASSERT_TRUE(lost);
    EXPECT_EQ(lost->worker, 2u);
    EXPECT_FALSE(lost->left);
  }
}

}  // namespace
}  // namespace jaxina::embedded
