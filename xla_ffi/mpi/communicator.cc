#include "xla_ffi/mpi/communicator.h"

#include <algorithm>
#include <future>
#include <vector>

namespace jaxina::mpi {
namespace {

constexpr std::uint64_t kSplit = 0x73706c6974;  // no other call's name

World& the_world() {
  static World world;
  return world;
}

}  // namespace

void set_world(World world) { the_world() = std::move(world); }
const World& world() { return the_world(); }

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
    Communicator(devices, all.rank)
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
  return {std::move(group), static_cast<int>(own - ranks.begin())};
}

}  // namespace jaxina::mpi
