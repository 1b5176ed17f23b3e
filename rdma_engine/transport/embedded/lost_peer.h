// find_lost_peer(): decides whether a worker that this one waits for will never come.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

namespace jaxina::embedded {

struct LostPeer {
  std::uint32_t worker;
  bool left;  // it has left in order, but too early; otherwise it has died
};

// `has_left(i)`: whether worker i has left in order. `missing()`: the workers that this one waits for. `is_alive(i)`:
// whether the process of worker i runs. The workers go on while these are asked, one after the other.
template <typename HasLeft, typename Missing, typename IsAlive>
std::optional<LostPeer> find_lost_peer(std::uint32_t workers, std::uint32_t self, HasLeft has_left, Missing missing,
                                       IsAlive is_alive) {
  // A worker leaves after its last contribution. So who had left before `missing` looked, and is missing, never comes.
  std::vector<bool> had_left(workers);
  for (std::uint32_t i = 0; i < workers; ++i) had_left[i] = has_left(i);
  const std::vector<std::uint32_t> awaited = missing();
  for (std::uint32_t i = 0; i < workers; ++i) {
    if (i == self) continue;
    if (had_left[i]) {
      if (std::find(awaited.begin(), awaited.end(), i) != awaited.end()) return LostPeer{i, true};
    } else if (!is_alive(i) && !has_left(i)) {  // it may have left, and its process ended, since it was first asked
      return LostPeer{i, false};
    }
  }
  return std::nullopt;
}

}  // namespace jaxina::embedded
