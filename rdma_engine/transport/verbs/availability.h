// Tells whether this build has the verbs transport, and whether this host has a device for it.
#pragma once

#include <string>

namespace jaxina::verbs {

// A text for users: the device that would be used, or what is missing.
std::string availability();

}  // namespace jaxina::verbs
