// JobKey: the random key of one job, from which the keys of its senders follow. The control plane makes a new one for
// each job and tells it only to the job's workers, over TLS.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace jaxina {

inline constexpr std::size_t kJobKeyBytes = 32;

struct JobKey {
  std::array<std::uint8_t, kJobKeyBytes> bytes{};
};

}  // namespace jaxina
