#include "xla_ffi/mpi/communicator.h"

#include <algorithm>
#include <future>
#include <mutex>
#include <vector>

namespace jaxina::mpi {
namespace {

constexpr std::uint64_t kSplit = 0x73706c6974;  // no other call's name

World& the_world() {
  static World world;
  return world;
}

std::mutex peers_mutex;
std::unique_ptr<Peers>& the_peers() {
  static std::unique_ptr<Peers> peers;
  return peers;
}

}  // namespace

void set_world(World world) {
  const std::lock_guard lock(peers_mutex);
  the_peers().reset();
  the_world() = std::move(world);
}

const World& world() { return the_world(); }

Peers& peers() {
  const std::lock_guard lock(peers_mutex);
  if (!the_peers()) {
    const World& all = world();
    auto made = std::make_unique<Peers>(all.rank, all.host);
    made->meet(all.endpoints(made->own()), all.timeout, all.ended);
    the_peers() = std::move(made);
  }
  return *the_peers();
}

std::shared_ptr<Peers::Receive> Communicator::post(int from, int tag, void* data, std::size_t bytes) const {
  return peers().post(in_world(from), channel(tag), data, bytes);
}

void Communicator::send(int to, int tag, const void* data, std::size_t bytes) const {
  peers().send(in_world(to), channel(tag), data, bytes);
}

int Communicator::in_world(int rank) const {
  if (rank < 0 || rank >= size()) throw Error(ErrorCode::kInvalidArgument, "the group has no process " + std::to_string(rank));
  return ranks_[static_cast<std::size_t>(rank)];
}

// FNV-1a, over what all processes of the communicator know alike.
std::uint64_t Communicator::channel(int tag) const {
  std::uint64_t hash = 14695981039346656037u;
  const auto take = [&hash](std::uint64_t value) {
    for (int shift = 0; shift < 64; shift += 8) hash = (hash ^ (value >> shift & 0xff)) * 1099511628211u;
  };
  take(static_cast<std::uint64_t>(tag));
  for (const int rank : ranks_) take(static_cast<std::uint64_t>(rank));
  return hash;
}

void Communicator::sum(const Tensor& tensor, std::uint64_t call) const {
  Collective collective;
  collective.identity = call;
  collective.tensors.push_back(tensor);
  std::promise<Status> promise;
  auto outcome = promise.get_future();
  Engine::instance().submit(group_, group_[static_cast<std::size_t>(rank_)], std::move(collective),
                            [&](Status status) { promise.set_value(std::move(status)); });
  const Status status = outcome.get();
  if (!status.ok()) throw Error(status);
}

Communicator Communicator::split(int color, int key) {
  const World& all = world();
  if (!all.devices) {
    throw Error(ErrorCode::kNotInitialized, "a program run with --catch-all calls jaxina.init() before it computes");
  }
  const Group devices = all.devices();
  struct Choice {
    std::int32_t color, key;
  };
  std::vector<Choice> choices(devices.size(), Choice{0, 0});
  choices[static_cast<std::size_t>(all.rank)] = {color, key};
  if (devices.size() > 1) {
    Communicator(devices, {}, all.rank)
        .sum({ElementType::kInt32, 2 * choices.size(), choices.data(), choices.data()}, kSplit);
  }

  std::vector<std::size_t> ranks;
  for (std::size_t rank = 0; rank < choices.size(); ++rank) {
    if (choices[rank].color == color) ranks.push_back(rank);
  }
  std::stable_sort(ranks.begin(), ranks.end(),
                   [&](std::size_t a, std::size_t b) { return choices[a].key < choices[b].key; });
  Group group;
  for (const std::size_t rank : ranks) group.push_back(devices[rank]);
  const auto own = std::find(ranks.begin(), ranks.end(), static_cast<std::size_t>(all.rank));
  const auto place = static_cast<int>(own - ranks.begin());
  return {std::move(group), std::vector<int>(ranks.begin(), ranks.end()), place};
}

}  // namespace jaxina::mpi
