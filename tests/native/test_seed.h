// The seed of a random test: JAXINA_TEST_SEED, or else a new one in every run. It is printed, so that a failure can be
// repeated.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>

namespace jaxina::testing {

inline std::uint64_t test_seed() {
  const char* given = std::getenv("JAXINA_TEST_SEED");
  const std::uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device{}();
  std::printf("JAXINA_TEST_SEED=%llu\n", static_cast<unsigned long long>(seed));
  return seed;
}

}  // namespace jaxina::testing
