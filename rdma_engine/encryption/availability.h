// Tells whether this build can encrypt packets, and whether this host has the library for it.
#pragma once

#include <string>

namespace jaxina::encryption {

// A text for users: the library that would be used, or what is missing.
std::string availability();

// Throws Error(kInvalidArgument) if this host cannot encrypt packets. The message says why.
void check_available();

}  // namespace jaxina::encryption
