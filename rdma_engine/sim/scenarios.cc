#include "rdma_engine/sim/plan.h"

namespace jaxina::sim {

const std::vector<Scenario>& scenarios() {
  static const std::vector<Scenario> all = {
      {"swarm", kSwarm, "a subset of everything below, drawn anew for every seed"},
      {"clean", 0, "no faults"},
      {"lossy", kLoss | kDuplication | kCorruption, "loss, duplication and corruption"},
      {"reordering", kDuplication | kReordering, "duplicates and packets that come late"},
      {"stalls", kLoss | kClogging | kPauses | kSlowWorkers, "clogged links, paused and slow workers"},
      {"crash", kLoss | kDuplication | kReordering | kCrash,
       "a worker dies; the job starts again as a new incarnation"},
      {"wipe", kLoss | kDuplication | kReordering | kWipe, "the switch reboots and loses its registers"},
      {"jobs", kLoss | kReordering | kSeveralJobs, "several jobs share the aggregator"},
      {"hostile", kLoss | kDuplication | kReordering | kSeveralJobs | kHostile | kCrash,
       "a sender forges, replays and mutates packets of everybody's jobs"},
      {"many", kLoss | kDuplication | kManyWorkers, "9 to 64 workers"},
      {"crowd", kLoss | kDuplication | kMostWorkers, "65 to 256 workers"},
      {"roce",
       kLoss | kDuplication | kReordering | kCorruption | kClogging | kPauses | kSlowWorkers | kSeveralJobs | kMessages,
       "RDMA messages of several packets each, over links on which everything goes wrong"},
      {"roce-ends", kLoss | kDuplication | kReordering | kCrash | kWipe | kMessages,
       "RDMA messages; a worker dies, the switch reboots"},
      {"roce-late", kDuplication | kReordering | kMessages | kLateCopies,
       "RDMA messages whose late copies are written over newer ones that are not yet read"},
      {"embedded", kSharedMemory, "shared memory; workers take turns in an order that the seed draws"},
      {"incast", kIncast, "workers send more at once than the switch's receive buffer holds"},
      {"atp", kLoss | kDuplication | kReordering | kCorruption | kClogging | kPauses | kSlowWorkers | kCombining,
       "each worker has a server, and a switch combines updates on their way there"},
      {"atp-racks", kLoss | kDuplication | kReordering | kClogging | kPauses | kCombining | kRacks,
       "the same with workers in two racks, whose switches combine first"},
      {"atp-jobs", kLoss | kReordering | kSeveralJobs | kCombining | kRacks,
       "the same with several jobs that share the switches' entries"},
      {"atp-ends", kLoss | kDuplication | kReordering | kCrash | kWipe | kSeveralJobs | kCombining,
       "the same; a worker dies, and the switch loses its memory, which must not end a job"},
      {"atp-hostile", kLoss | kReordering | kSeveralJobs | kHostile | kWipe | kCombining | kRacks,
       "the same with a sender who forges and replays packets of workers, switches and servers"},
      {"atp-servers",
       kLoss | kDuplication | kReordering | kCorruption | kClogging | kPauses | kCrash | kWipe | kSeveralJobs |
           kCombining | kServers,
       "the servers are on hosts of their own behind the switch, and everything goes wrong on the way there"},
      {"atp-congestion", kReordering | kSeveralJobs | kCombining | kServers | kCongestion,
       "the same with links that are too narrow, where switches mark packets before queues are full"},
      {"narrow",
       kLoss | kDuplication | kReordering | kCorruption | kClogging | kPauses | kSeveralJobs | kHostile | kNarrow,
       "some tensors have words of 8 or 16 bits, rounded to nearest or at random"},
      {"narrow-roce", kLoss | kDuplication | kReordering | kCorruption | kPauses | kCrash | kMessages | kNarrow,
       "the same in RDMA messages"},
      {"narrow-embedded", kSharedMemory | kNarrow, "the same in shared memory"},
      {"narrow-atp", kLoss | kDuplication | kReordering | kWipe | kCombining | kRacks | kNarrow,
       "the same through switches that combine words of 32 bits and send narrower ones on"},
      {"netreduce",
       kLoss | kDuplication | kReordering | kCorruption | kClogging | kPauses | kSlowWorkers | kSeveralJobs | kRing,
       "workers write to each other in a ring, over reliable connections through a switch that adds"},
      {"netreduce-ends", kLoss | kDuplication | kReordering | kCrash | kWipe | kSeveralJobs | kRing,
       "the same; a worker dies, the switch reboots"},
      {"netreduce-racks",
       kLoss | kDuplication | kReordering | kCorruption | kClogging | kPauses | kSlowWorkers | kSeveralJobs | kRing |
           kRacks,
       "the same with workers in two or three racks, whose leaves add first, and a spine above them"},
      {"netreduce-racks-ends", kLoss | kDuplication | kReordering | kCrash | kWipe | kSeveralJobs | kRing | kRacks,
       "the same; a worker dies, a leaf or the spine reboots"},
      {"bursts", kLoss | kDuplication | kReordering | kPauses | kMerging,
       "packets of a burst travel, are lost and are read as one, as with segmentation offload"},
  };
  return all;
}

const Scenario* scenario_named(std::string_view name) {
  for (const Scenario& scenario : scenarios()) {
    if (scenario.name == name) return &scenario;
  }
  return nullptr;
}

}  // namespace jaxina::sim
