// WorkerContacts: where a job's workers are, and where their results go.
//
// Switches on the way have several ports, and several of them may take turns: slots whose numbers are equal modulo the
// number of ways come through the same port, and only there do results of these slots belong. So each way has contacts
// of its own.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "rdma_engine/aggregator/worker_set.h"
#include "rdma_engine/base/address.h"
#include "rdma_engine/base/narrow.h"

namespace jaxina {

// What we know of a worker from its latest counted update. `address` is where that update came from; replayed packets
// do not count, so they cannot divert results. `slot` is that update's slot: it tells the worker which of several
// switch threads is speaking. The address is empty until the first counted update.
struct WorkerContact {
  Address address;
  std::uint16_t slot = 0;
};

class WorkerContacts {
 public:
  // `groups` are the workers of each group whose updates may come as one sum, `ways` the number of ports through which
  // they may come. Without ways, workers send straight to us.
  WorkerContacts(std::uint32_t workers, std::vector<WorkerSet> groups, std::size_t ways)
      : groups_(std::move(groups)), combines_(ways > 0) {
    ways_.reserve(std::max<std::size_t>(ways, 1));
    for (std::size_t way = 0; way < std::max<std::size_t>(ways, 1); ++way) ways_.emplace_back(workers, groups_.size());
  }

  static std::size_t bytes_for(std::uint32_t workers, std::size_t ways) {
    return workers * sizeof(WorkerContact) * (ways == 0 ? 1 : 2 * ways);
  }

  const std::vector<WorkerSet>& groups() const { return groups_; }

  // An update of the worker was counted, or a sum of the group.
  void heard_from(std::uint32_t worker, const WorkerContact& contact) {
    Way& way = way_of(contact.slot);
    if (!combines_) {
      way.workers[worker] = contact;
    } else if (way.workers[worker].address != contact.address) {
      way.workers[worker] = contact;
      way.update_receivers();
    }
  }
  void heard_from_group(std::uint32_t group, const WorkerContact& contact) {
    Way& way = way_of(contact.slot);
    if (way.all_heard_in[group] == way.changes) return;  // each has this contact already
    for (std::uint32_t worker = 0; worker < way.workers.size(); ++worker) {
      if (contains(groups_[group], worker)) way.workers[worker] = contact;
    }
    way.update_receivers();
    way.all_heard_in[group] = way.changes;
  }

  // Where a slot's results go. A switch that combines updates is there once; it passes results on to its workers.
  const std::vector<WorkerContact>& receivers(std::uint16_t slot) const {
    const Way& way = ways_[slot % ways_.size()];
    return combines_ ? way.receivers : way.workers;
  }
  // Calls visit(contact) for each contact of each way.
  template <typename Visit>
  void for_each(Visit visit) const {
    for (std::size_t way = 0; way < ways_.size(); ++way) {
      for (const WorkerContact& contact : receivers(narrow<std::uint16_t>(way))) {
        if (contact.address.size > 0) visit(contact);
      }
    }
  }

 private:
  struct Way {
    Way(std::uint32_t size, std::size_t groups) : workers(size), all_heard_in(groups) { receivers.reserve(size); }

    void update_receivers() {
      receivers.clear();
      for (const WorkerContact& contact : workers) {
        const auto same = [&](const WorkerContact& other) { return other.address == contact.address; };
        if (contact.address.size > 0 && std::none_of(receivers.begin(), receivers.end(), same)) {
          receivers.push_back(contact);
        }
      }
      ++changes;
    }

    std::vector<WorkerContact> workers;
    std::vector<WorkerContact> receivers;     // the different ones of workers, if switches combine
    std::uint64_t changes = 1;                // of workers
    std::vector<std::uint64_t> all_heard_in;  // per group: the change after which all its workers had its contact
  };

  Way& way_of(std::uint16_t slot) { return ways_[slot % ways_.size()]; }

  std::vector<WorkerSet> groups_;
  bool combines_;
  std::vector<Way> ways_;
};

}  // namespace jaxina
