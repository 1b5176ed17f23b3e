// study_congestion: jobs that send updates through one switch over one link to a server, which is too narrow for what
// is not combined.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "rdma_engine/base/time.h"
#include "rdma_engine/worker/window.h"

namespace jaxina::sim {

struct CongestionCase {
  std::uint64_t seed = 0;
  std::uint32_t jobs = 1;
  std::uint32_t workers = 4;          // of each job
  double share_sent_on = 0.5;         // of passes that are not combined
  bool marks = true;                  // whether the switch marks packets
  Nanoseconds standing = 4'000'000;   // see WindowLimits
  Nanoseconds threshold = 1'000'000;  // see PhantomQueueOptions
  Nanoseconds second_starts_at = 0;   // when all jobs but the first start
};

struct CongestionFigures {
  std::string failure;            // of the simulation's oracles; empty: none
  double of_model = 0;            // goodput of all jobs, as a share of the model's: 1 / (1 + (n - 1) f) of the link
  double dropped = 0;             // share of the packets on the server's link
  double sent_again = 0;          // retransmissions, as a share of all transmissions of workers
  std::vector<double> job_share;  // of each job, of all completed passes
};

// Jain's index of fairness, between 1 / n and 1 (Jain, Chiu, Hawe 1984).
double jain_index(const std::vector<double>& shares);

// Measures from 0.2 s to 0.6 s after all jobs have started. Links have 4 bytes per microsecond, so they carry as many
// packets per second as links of 200 Mbit/s carry packets of a block of 256 elements.
CongestionFigures study_congestion(const CongestionCase& what);

}  // namespace jaxina::sim
