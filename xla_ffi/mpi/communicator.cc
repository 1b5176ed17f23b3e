// Gives every call of a communicator its name, and hands it to the engine (sums) or to Peers (messages).
#include "xla_ffi/mpi/communicator.h"

#include <algorithm>
#include <chrono>
#include <future>
#include <mutex>
#include <set>
#include <vector>

#include "rdma_engine/base/assert.h"
#include "xla_ffi/mpi/running_program.h"
#include "xla_ffi/sum_counts.h"

namespace jaxina::mpi {
namespace {

constexpr int kExchangeTag = -1;  // no message of XLA's has it: XLA's tags are not negative
// The longest wait of fail_sums_of_others(). A process that makes no sum in this time gets its error when it makes one.
constexpr std::chrono::seconds kLongestWait{10};
constexpr std::uint64_t kSplit = 0x73706c6974;  // "split": names the messages of Communicator::split()

World& the_world() {
  static World world;
  return world;
}

// Python is called without state_mutex: whoever holds the GIL may wait for a thread that needs this lock.
std::mutex state_mutex;   // guards the_world(), the_devices(), the_peers(), the_parts() and the_waits()
std::mutex making_peers;  // held while the_peers() are made or ended; taken before state_mutex
Group& the_devices() {
  static Group devices;
  return devices;
}
std::unique_ptr<Peers>& the_peers() {
  static std::unique_ptr<Peers> peers;
  return peers;
}

// The ranks, in order, of each communicator that was split off. XLA keeps them until the process ends.
std::set<std::vector<int>>& the_parts() {
  static std::set<std::vector<int>> parts;
  return parts;
}

// The groups in whose sums this process waits.
std::multiset<Group>& the_waits() {
  static std::multiset<Group> waits;
  return waits;
}

// Returns the devices of these processes, by rank. Their ids are those of the second stream, which XLA's own sums use.
// The devices of all processes are asked for once and kept.
Group group_of(const std::vector<int>& ranks) {
  std::unique_lock lock(state_mutex);
  Group devices = the_devices();
  if (devices.empty()) {
    const std::function<Group()> ask = the_world().devices;
    lock.unlock();
    if (!ask) throw Error(ErrorCode::kNotInitialized, "call jaxina.init() before the program computes");
    devices = ask();
    lock.lock();
    the_devices() = devices;
  }
  Group group;
  for (const int rank : ranks) group.push_back(devices[static_cast<std::size_t>(rank)]);
  return group;
}

Peers* known_peers() {
  const std::lock_guard lock(state_mutex);
  return the_peers().get();
}

}  // namespace

void set_world(World world) {
  const std::lock_guard making(making_peers);
  std::unique_ptr<Peers> ended;  // destroyed once state_mutex is free again, because its thread has to end first
  const std::lock_guard lock(state_mutex);
  ended = std::move(the_peers());
  the_devices().clear();
  running_program().forget();
  the_world() = std::move(world);
}

const World& world() { return the_world(); }

Peers& peers() {
  if (Peers* known = known_peers()) return *known;
  const std::lock_guard making(making_peers);
  if (Peers* known = known_peers()) return *known;
  const World& all = world();
  auto made = std::make_unique<Peers>(all.rank, all.host, all.ports);
  made->meet(all.endpoints(made->own()), all.timeout, all.ended);
  const std::lock_guard lock(state_mutex);
  the_peers() = std::move(made);
  return *the_peers();
}

bool has_peers() { return known_peers() != nullptr; }

Communicator Communicator::all() { return of_this_process(running_program().processes()); }

Communicator Communicator::of_this_process(std::vector<int> ranks) {
  const auto own = std::find(ranks.begin(), ranks.end(), world().rank);
  JAXINA_ASSERT(own != ranks.end());
  const auto place = static_cast<int>(own - ranks.begin());
  return {std::move(ranks), place};
}

std::shared_ptr<Peers::Receive> Communicator::post(int from, int tag, void* data, std::size_t bytes) const {
  return peers().post(in_world(from), call(tag, Direction::kIn, from), data, bytes);
}

void Communicator::send(int to, int tag, const void* data, std::size_t bytes) const {
  peers().send(in_world(to), call(tag, Direction::kOut, to), data, bytes);
}

// Messages of one sender on one channel keep their order. So the sender's nth message is the receiver's nth, and both
// give it the same name.
Call Communicator::call(int tag, Direction direction, int other) const {
  const std::uint64_t channel = this->channel(tag);
  const std::uint64_t stream =
      hash_of({channel, static_cast<std::uint64_t>(direction), static_cast<std::uint64_t>(other)});
  return {channel, running_program().next(stream), running_program().run()};
}

int Communicator::in_world(int rank) const {
  if (rank < 0 || rank >= size())
    throw Error(ErrorCode::kInvalidArgument, "the group has no process " + std::to_string(rank));
  return ranks_[static_cast<std::size_t>(rank)];
}

// Hashes the tag and the ranks, which all processes of the communicator know alike.
std::uint64_t Communicator::channel(int tag) const {
  std::uint64_t hash = hash_of({static_cast<std::uint64_t>(tag)});
  for (const int rank : ranks_) hash = hash_of({hash, static_cast<std::uint64_t>(rank)});
  return hash;
}

std::uint64_t Communicator::next_collective(std::uint64_t what) const {
  return running_program().next_collective(channel(kExchangeTag), what);
}

void Communicator::exchange(const std::vector<Bytes>& out, const std::vector<WritableBytes>& in,
                            std::uint64_t name) const {
  const auto n = static_cast<std::size_t>(size());
  const auto own = static_cast<std::size_t>(rank_);
  JAXINA_ASSERT(out.size() == n && in.size() == n && out[own].size() == in[own].size());
  const Call call{channel(kExchangeTag), name, running_program().run()};
  std::vector<std::shared_ptr<Peers::Receive>> posted;
  std::size_t waited = 0;
  try {
    for (std::size_t i = 1; i < n; ++i) {
      const WritableBytes part = in[(own + n - i) % n];
      posted.push_back(peers().post(ranks_[(own + n - i) % n], call, part.data(), part.size()));
    }
    std::copy(out[own].begin(), out[own].end(), in[own].begin());
    for (std::size_t i = 1; i < n; ++i) {
      const Bytes part = out[(own + i) % n];
      peers().send(ranks_[(own + i) % n], call, part.data(), part.size());
    }
    while (waited < posted.size()) peers().wait(posted[waited++]);
  } catch (...) {
    for (; waited < posted.size(); ++waited) peers().abandon(posted[waited]);
    throw;
  }
}

void Communicator::sum(const Tensor& tensor, std::uint64_t name) const {
  const Group group = group_of(ranks_);
  Collective collective;
  collective.identity = name;
  collective.rounding = running_program().precision().rounding;
  collective.tensors.push_back(tensor);
  count_sum(running_program().identity(), collective);
  std::promise<Status> promise;
  auto outcome = promise.get_future();
  {
    const std::lock_guard lock(state_mutex);
    the_waits().insert(group);
  }
  Engine::instance().submit(group, group[static_cast<std::size_t>(rank_)], std::move(collective),
                            [&](Status status) { promise.set_value(std::move(status)); });
  const Status status = outcome.get();
  {
    const std::lock_guard lock(state_mutex);
    the_waits().erase(the_waits().find(group));
  }
  if (!status.ok()) throw Error(status);
}

void Communicator::abort_sums(const Status& reason) {
  std::set<Group> groups;
  {
    const std::lock_guard lock(state_mutex);
    groups.insert(the_waits().begin(), the_waits().end());
  }
  for (const Group& group : groups) Engine::instance().abort(group, reason);
}

void Communicator::fail_sums_of_others(std::uint64_t name, bool parts) const {
  std::set<std::vector<int>> groups{ranks_};
  if (parts) {
    const std::lock_guard lock(state_mutex);
    const auto here = [this](int rank) { return std::find(ranks_.begin(), ranks_.end(), rank) != ranks_.end(); };
    for (const std::vector<int>& part : the_parts()) {
      if (std::all_of(part.begin(), part.end(), here)) groups.insert(part);
    }
  }
  std::vector<std::future<void>> failed;
  for (const std::vector<int>& group : groups) failed.push_back(of_this_process(group).fail_sum_of_others(name));
  const auto deadline = std::chrono::steady_clock::now() + kLongestWait;
  for (const std::future<void>& one : failed) one.wait_until(deadline);
}

std::future<void> Communicator::fail_sum_of_others(std::uint64_t name) const {
  const Group group = group_of(ranks_);
  struct Submitted {
    std::int32_t nothing = 0;
    std::promise<void> done;
  };
  const auto submitted = std::make_shared<Submitted>();
  std::future<void> done = submitted->done.get_future();
  Collective collective;
  collective.identity = name;
  collective.rounding = running_program().precision().rounding;
  collective.tensors.push_back({ElementType::kInt32, 1, &submitted->nothing, &submitted->nothing});
  Engine::instance().submit(group, group[static_cast<std::size_t>(rank_)], std::move(collective),
                            [submitted](const Status&) { submitted->done.set_value(); });
  return done;
}

Communicator Communicator::split(int color, int key) {
  struct Choice {
    std::int32_t color, key;
  };
  const Communicator everybody = all();
  const auto n = static_cast<std::size_t>(everybody.size());
  const Choice own{color, key};
  std::vector<Choice> choices(n);
  std::vector<WritableBytes> in;
  for (Choice& choice : choices) in.push_back(std::as_writable_bytes(std::span(&choice, 1)));
  everybody.exchange(std::vector<Bytes>(n, std::as_bytes(std::span(&own, 1))), in, kSplit);

  std::vector<std::size_t> places;
  for (std::size_t place = 0; place < n; ++place) {
    if (choices[place].color == color) places.push_back(place);
  }
  std::stable_sort(places.begin(), places.end(),
                   [&](std::size_t a, std::size_t b) { return choices[a].key < choices[b].key; });
  std::vector<int> ranks;
  for (const std::size_t place : places) ranks.push_back(everybody.ranks_[place]);
  if (ranks.size() > 1) {
    const std::lock_guard lock(state_mutex);
    the_parts().insert(ranks);
  }
  return of_this_process(std::move(ranks));
}

}  // namespace jaxina::mpi
