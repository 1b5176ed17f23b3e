// What the sums of this process's programs are, in words, for errors.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "rdma_engine/errors.h"

namespace jaxina {

// From now on the sums with these identities (Collective::identity) have these names.
void name_sums(const std::vector<std::pair<std::uint64_t, std::string>>& names);

// Says with kMismatch what the sum is in this process. Workers that disagree can then compare.
Status with_name(const Status& status, std::uint64_t identity);

}  // namespace jaxina
