// The engine's only type for time.
#pragma once

#include <cstdint>

namespace jaxina {

using Nanoseconds = std::int64_t;  // a duration, or a point in time of a clock with an arbitrary start

}  // namespace jaxina
