// Endpoint: connects a worker to its aggregator over one transport. One thread owns an endpoint and its worker; other
// threads may only call wake().
#pragma once

#include <memory>
#include <vector>

#include "rdma_engine/aggregator/bytes_counter.h"
#include "rdma_engine/base/counters.h"
#include "rdma_engine/base/time.h"
#include "rdma_engine/errors.h"
#include "rdma_engine/transport/transport_config.h"
#include "rdma_engine/worker/worker.h"

namespace jaxina {

class Endpoint {
 public:
  virtual ~Endpoint() = default;

  // The state machine that this endpoint drives. The owner submits collectives to it and pops the completed ones.
  virtual Worker& worker() = 0;
  const Worker& worker() const { return const_cast<Endpoint*>(this)->worker(); }

  // Moves packets until a collective has completed, nothing is left to do, wake() is called, or `wait` has passed. A
  // failure is final: the endpoint cannot be used any more.
  virtual Status progress(Nanoseconds wait) = 0;

  // Makes a waiting progress() return early. Thread-safe.
  virtual void wake() = 0;

  // From now on records passes and waits. The recorder must outlive the endpoint.
  void record(Recorder* recorder) {
    recorder_ = recorder;
    worker().record(recorder);
  }

  // The workers that the oldest unfinished pass still waits for, if this endpoint knows.
  virtual std::vector<std::uint32_t> missing() = 0;

  // Counters of the transport and its worker. The owner counts collectives and elements.
  Counters statistics() const {
    Counters counters = transport_counters();
    counters[Counter::kRetransmissions] += worker().retransmissions();  // a reliable connection has its own
    counters[Counter::kMarked] = worker().window().marks();
    counters[Counter::kWindowDecreases] = worker().window().decreases();
    counters[Counter::kStagedWords] = worker().staged_words();
    for (const wire::Format format : wire::kFormats) {
      counters[bytes_counter(format)] += worker().bytes_sent()[static_cast<std::size_t>(format)];
    }
    return counters;
  }

  // This worker gives up. Ends the job for the other workers if the transport can tell them; over a network, the
  // control plane does that instead.
  virtual void end(const Status& reason) { (void)reason; }

 protected:
  virtual Counters transport_counters() const = 0;

  Recorder* recorder_ = nullptr;
};

// Joins the job. Throws Error. Over shared memory it blocks until every worker has joined, at most the join deadline.
// Over RDMA it blocks while the queue pairs' numbers are exchanged. Over udp it only resolves the addresses and checks
// that there is a route.
std::unique_ptr<Endpoint> make_endpoint(const Membership& member, const EmbeddedConfig& config);
std::unique_ptr<Endpoint> make_endpoint(const Membership& member, const UdpConfig& config);
std::unique_ptr<Endpoint> make_endpoint(const Membership& member, const RoceConfig& config);
// With verbs, throws Error(kInvalidArgument) if jaxina was built without libibverbs.
std::unique_ptr<Endpoint> make_endpoint(const Membership& member, const VerbsConfig& config);
// These block until all workers have exchanged their ends.
std::unique_ptr<Endpoint> make_endpoint(const Membership& member, const RingConfig& config);
std::unique_ptr<Endpoint> make_endpoint(const Membership& member, const VerbsRingConfig& config);

}  // namespace jaxina
