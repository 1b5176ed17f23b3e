// Tests what keeps the link to a server from overflowing: the marks of the switch.
#include <gtest/gtest.h>

#include "rdma_engine/combiner/entry_table.h"
#include "rdma_engine/sim/sharing_study.h"

namespace jaxina::sim {
namespace {

// Four workers of a job, half of whose passes are not combined. Without marks, the link's queue overflows.
TEST(Congestion, MarksKeepASharedLinkFromOverflowing) {
  SharingCase what{.seed = 7, .share_sent_on = 0.5};
  const SharingFigures marks = study_sharing(what);
  EXPECT_EQ(marks.failure, "");
  EXPECT_LT(marks.dropped, 0.001);
  EXPECT_GT(marks.of_model, 0.9);
  what.marks = false;
  const SharingFigures none = study_sharing(what);
  EXPECT_EQ(none.failure, "");
  EXPECT_GT(none.dropped, 0.02);
}

// Jobs get equal shares of a link, whether workers' packets meet there or only sums.
TEST(Congestion, MarksMakeJobsEqual) {
  for (const SharingCase& what :
       {SharingCase{.seed = 7, .jobs = 2, .share_sent_on = 0.5, .second_starts_at = 100'000'000},
        SharingCase{.seed = 7, .jobs = 2, .workers = 8, .second_starts_at = 100'000'000}}) {
    const SharingFigures figures = study_sharing(what);
    EXPECT_EQ(figures.failure, "");
    EXPECT_LT(figures.dropped, 0.001);
    EXPECT_GT(figures.of_model, 0.9);
    EXPECT_GT(jain_index(figures.job_share), 0.95);
  }
}

// TCP keeps the queue of worker 0's link full. Before the window competed with others, a job got 0.05 to 0.1 of the
// link.
TEST(Congestion, AJobBesideTcpGetsItsPart) {
  for (const bool marks : {false, true}) {
    const SharingFigures figures =
        study_sharing({.seed = 7, .marks = marks, .queue = 10'000'000, .tcp_stream = true, .settled = 1'000'000'000});
    EXPECT_EQ(figures.failure, "");
    EXPECT_GT(figures.first_link, 0.9);
    EXPECT_GT(1 - figures.tcp_share, 0.3);
    EXPECT_LT(1 - figures.tcp_share, 0.7);
  }
}

// Switches learn of a job one after the other. Workers whose switch did not know it yet have begun to send directly.
TEST(Sharing, ASwitchThatLearnsOfAJobLateDelaysItOnlyShortly) {
  SharingCase what{.seed = 7, .workers = 8, .oversubscription = 4};
  const SharingFigures prompt = study_sharing(what);
  what.first_rack_learns_at = 30'000'000;
  const SharingFigures late = study_sharing(what);
  // Without marks, jobs have 0.5 to 0.9 of the link here, late or not. If all were sent directly, it would be an
  // eighth.
  what.marks = false;
  const SharingFigures unmarked = study_sharing(what);
  EXPECT_EQ(prompt.failure + late.failure + unmarked.failure, "");
  EXPECT_GT(late.of_link, 0.95 * prompt.of_link);
  EXPECT_GT(unmarked.of_link, 0.4);
  for (const SharingFigures& figures : {late, unmarked}) EXPECT_GT(figures.hits, 0.9);
}

// Links are full before the first mark comes, packets are late, and what is sent again overflows the server's link.
// When workers then send directly, they must not keep it full, and must soon use the switches again. Before, eight
// workers got half of the link in the time that is measured.
TEST(Sharing, AJobRecoversFromItsOwnBurst) {
  for (const std::uint32_t oversubscription : {0, 1, 2, 4}) {
    const SharingFigures figures =
        study_sharing({.seed = 7, .workers = 8, .oversubscription = oversubscription, .marks = true});
    EXPECT_EQ(figures.failure, "");
    EXPECT_GT(figures.of_link, 0.9) << oversubscription;
  }
}

// Processes that wait for a processor stand still now and then. Afterwards a job must get its link again. Before, all
// of these did a few passes a second from then on (docs/atp.md).
TEST(Sharing, AJobRecoversFromWorkersThatPaused) {
  for (const std::uint32_t workers : {4, 8}) {
    for (const std::uint64_t seed : {6, 7, 8}) {
      SharingCase what{.seed = seed, .workers = workers, .loss = 0.001, .entries = 1024, .marks = false};
      what.queue = 10'000'000;
      what.pauses = 300'000'000;
      what.settled = 1'600'000'000;
      const SharingFigures figures = study_sharing(what);
      EXPECT_EQ(figures.failure, "");
      EXPECT_GT(figures.of_link, 0.8) << workers << " workers, seed " << seed;
    }
  }
}

// A table with room for half of what a job has in flight. Reserved places are two for a slot.
TEST(Sharing, EntriesAreWorthMoreThanReservedPlaces) {
  SharingCase what{.seed = 7, .slots = 64, .entries = 8, .threshold = 1'000'000, .delay = 250'000};
  const SharingFigures shared = study_sharing(what);
  what.entries = 0;
  const SharingFigures servers = study_sharing(what);
  what.reserved = true;
  what.slots = 4;
  const SharingFigures reserved = study_sharing(what);
  EXPECT_EQ(shared.failure + servers.failure + reserved.failure, "");
  EXPECT_GT(shared.of_link, 1.5 * reserved.of_link);
  EXPECT_GT(shared.of_link, servers.of_link);
  constexpr double kAtRandom = 0.43;  // (1 - e^-2) / 2
  EXPECT_GT(shared.hits, kAtRandom);
}

// With as many servers as jobs, and 32 entries, which 4 servers divide, one of four server's links was full and the
// others idle: the jobs had 0.30 of a link.
TEST(Sharing, JobsThatShareServersFillAllTheirLinks) {
  const SharingFigures figures = study_sharing({.jobs = 4,
                                                .workers = 4,
                                                .slots = 64,
                                                .entries = prime_entries(32),
                                                .servers = 4,
                                                .threshold = 1'000'000,
                                                .second_starts_at = 7'000'000,
                                                .delay = 250'000});
  EXPECT_EQ(figures.failure, "");
  EXPECT_GT(figures.of_link, 0.36);
}

TEST(Congestion, JainsIndex) {
  EXPECT_DOUBLE_EQ(jain_index({2, 2, 2}), 1);
  EXPECT_DOUBLE_EQ(jain_index({1, 0, 0, 0}), 0.25);
  EXPECT_DOUBLE_EQ(jain_index({1, 3}), 0.8);
}

}  // namespace
}  // namespace jaxina::sim
