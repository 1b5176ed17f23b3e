// Tells whether this build has the verbs transport, and whether this host has the device for it.
#pragma once

#include <string>

#include "rdma_engine/transport/transport_config.h"

namespace jaxina::verbs {

// A text for users: the device that would be used, or what is missing.
std::string availability();

// Throws Error(kInvalidArgument) if this host does not have this device, or cannot use it now. The message says why.
void check_device(const RdmaDevice& device);

}  // namespace jaxina::verbs
