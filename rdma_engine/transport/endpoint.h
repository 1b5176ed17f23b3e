// A member's way to its aggregator. One thread owns an endpoint and its worker; only wake() may be called from others.
#pragma once

#include <memory>
#include <vector>

#include "rdma_engine/base/counters.h"
#include "rdma_engine/base/time.h"
#include "rdma_engine/errors.h"
#include "rdma_engine/transport/transport_config.h"
#include "rdma_engine/worker/worker.h"

namespace jaxina {

class Endpoint {
 public:
  virtual ~Endpoint() = default;

  // The state machine this endpoint drives; the owner submits collectives to it and pops completed ones.
  virtual Worker& worker() = 0;
  const Worker& worker() const { return const_cast<Endpoint*>(this)->worker(); }

  // Moves packets until something has completed, nothing is left to do, wake() was called, or `wait` has passed,
  // whichever comes first. A failure is final: the endpoint cannot be used any more.
  virtual Status progress(Nanoseconds wait) = 0;

  // Makes a progress() that waits return early. Thread-safe.
  virtual void wake() = 0;

  // Records passes and waits from now on; the recorder must outlive the endpoint.
  void record(Recorder* recorder) {
    recorder_ = recorder;
    worker().record(recorder);
  }

  // The workers that the oldest unfinished pass still waits for, as far as this endpoint knows.
  virtual std::vector<std::uint32_t> missing() = 0;

  // Of the transport and its worker; collectives and elements are counted by the owner.
  Counters statistics() const {
    Counters counters = transport_counters();
    counters[Counter::kRetransmissions] = worker().retransmissions();
    counters[Counter::kStagedWords] = worker().staged_words();
    return counters;
  }

  // This worker gives up: ends the job for the others where the transport can tell them. Over a network the control
  // plane does that.
  virtual void end(const Status& reason) { (void)reason; }

 protected:
  virtual Counters transport_counters() const = 0;

  Recorder* recorder_ = nullptr;
};

// Joins the job; blocks until every worker has joined (embedded) or the aggregator has answered (udp), at most the join
// deadline. Throws Error.
std::unique_ptr<Endpoint> make_endpoint(const Membership& member, const EmbeddedConfig& config);
std::unique_ptr<Endpoint> make_endpoint(const Membership& member, const UdpConfig& config);
std::unique_ptr<Endpoint> make_endpoint(const Membership& member, const RoceConfig& config);
// Throws Error(kInvalidArgument) where jaxina was built without libibverbs.
std::unique_ptr<Endpoint> make_endpoint(const Membership& member, const VerbsConfig& config);

}  // namespace jaxina
