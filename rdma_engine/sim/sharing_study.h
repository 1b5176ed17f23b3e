// study_sharing: jobs that share a switch's memory and the links to servers. Each job sums one long tensor.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "rdma_engine/base/time.h"

namespace jaxina::sim {

struct SharingCase {
  std::uint64_t seed = 0;
  std::uint32_t jobs = 1;
  std::uint32_t workers = 4;  // of each job
  std::uint32_t slots = 256;  // of each job
  // How many times as fast the links of a rack's workers are together as its link to the core, if workers are in two
  // racks. 0: there is only one switch.
  std::uint32_t oversubscription = 0;
  Nanoseconds first_rack_learns_at = 0;  // until then the switch of the first rack knows no job
  double loss = 0;                       // share of packets that each link loses, each way
  // The switch (the core, if there are racks) sums in slots that each job has for itself. Then nothing below matters
  // but delay.
  bool reserved = false;
  std::uint32_t entries = 4096;
  std::uint32_t servers = 1;          // hosts that all jobs share
  double share_sent_on = 0;           // of passes that are not combined, though they could be
  bool marks = true;                  // whether the switch marks packets
  Nanoseconds standing = 4'000'000;   // see WindowLimits
  Nanoseconds threshold = 4'000'000;  // see PhantomQueueOptions; that of the software switch
  Nanoseconds second_starts_at = 0;   // when all jobs but the first start
  Nanoseconds delay = 100'000;        // of each link
  Nanoseconds queue = 5'000'000;      // of each link, in time
  bool tcp_stream = false;            // whether a TCP stream goes to the first worker
  // Each worker stands still three times, at random within 20 to 820 ms, for up to so long. So do processes that wait
  // for a processor.
  Nanoseconds pauses = 0;
  Nanoseconds settled = 200'000'000;  // when measuring begins, after all jobs have started
};

struct SharingFigures {
  std::string failure;    // of the simulation's oracles; empty: none
  double of_link = 0;     // mean goodput of a job, as a share of a worker's link
  double of_model = 0;    // goodput of all jobs together, as a share of 1 / (1 + (n - 1) f) of the servers' links
  double hits = 0;        // share of updates that claimed or joined an entry, of those that could
  double dropped = 0;     // share of the packets on the servers' links
  double sent_again = 0;  // share of all transmissions of workers
  std::vector<double> job_share;  // of each job, of all completed passes
  double first_link = 0;          // the used share of the link to the first worker
  double tcp_share = 0;           // the TCP stream's part of that
};

// Jain's index of fairness, between 1 / n and 1 (Jain, Chiu, Hawe 1984). 0 if all shares are 0.
double jain_index(const std::vector<double>& shares);

// Measures for 0.4 s. Links have 4 bytes per microsecond, so they carry as many
// packets per second as links of 200 Mbit/s carry packets of a block of 256 elements.
SharingFigures study_sharing(const SharingCase& what);

}  // namespace jaxina::sim
