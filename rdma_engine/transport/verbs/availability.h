// Whether this build has the verbs transport, and whether this host has a device for it.
#pragma once

#include <string>

namespace jaxina::verbs {

// The devices that could be used, or what is missing, in words.
std::string availability();

}  // namespace jaxina::verbs
