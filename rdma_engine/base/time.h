// The engine's one type of time.
#pragma once

#include <cstdint>

namespace jaxina {

using Nanoseconds = std::int64_t;  // durations, and points of a clock that starts anywhere

}  // namespace jaxina
