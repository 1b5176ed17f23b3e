#include "rdma_engine/transport/endpoint.h"
#include "rdma_engine/transport/verbs/availability.h"

namespace jaxina {
namespace {

constexpr char kMissing[] =
    "not built: the header of libibverbs was not there (Debian: libibverbs-dev); install it and build jaxina again";

}  // namespace

std::unique_ptr<Endpoint> make_endpoint(const Membership&, const VerbsConfig&) {
  throw Error(ErrorCode::kInvalidArgument, std::string("the verbs transport is ") + kMissing);
}

std::string verbs::availability() { return kMissing; }

}  // namespace jaxina
