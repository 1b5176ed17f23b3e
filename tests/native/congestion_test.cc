// Tests what keeps the link to a server from overflowing: the marks of the switch.
#include <gtest/gtest.h>

#include "rdma_engine/sim/sharing_study.h"

namespace jaxina::sim {
namespace {

// Four workers of each job, half of whose passes are not combined. A link that is shared drops nothing if packets are
// marked, and jobs get equal shares of it. Without marks, most of what is sent is lost.
TEST(Congestion, MarksKeepASharedLinkFromOverflowing) {
  for (const std::uint32_t jobs : {1u, 2u}) {
    SharingCase what{.seed = 7, .jobs = jobs, .share_sent_on = 0.5, .second_starts_at = 100'000'000};
    const SharingFigures marks = study_sharing(what);
    EXPECT_EQ(marks.failure, "");
    EXPECT_LT(marks.dropped, 0.001);
    EXPECT_GT(marks.of_model, 0.9);
    EXPECT_GT(jain_index(marks.job_share), 0.95);
    what.marks = false;
    const SharingFigures none = study_sharing(what);
    EXPECT_EQ(none.failure, "");
    EXPECT_GT(none.dropped, 0.2);
    EXPECT_LT(none.of_model, 0.8);
  }
}

TEST(Congestion, JainsIndex) {
  EXPECT_DOUBLE_EQ(jain_index({2, 2, 2}), 1);
  EXPECT_DOUBLE_EQ(jain_index({1, 0, 0, 0}), 0.25);
  EXPECT_DOUBLE_EQ(jain_index({1, 3}), 0.8);
}

}  // namespace
}  // namespace jaxina::sim
