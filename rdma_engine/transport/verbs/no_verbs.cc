#include "rdma_engine/transport/endpoint.h"
#include "rdma_engine/transport/verbs/availability.h"

namespace jaxina {
namespace {

constexpr char kMissing[] =
    "not built: the header of libibverbs was not there (Debian: libibverbs-dev); install it and build jaxina again";

[[noreturn]] void refuse() {
  throw Error(ErrorCode::kInvalidArgument, std::string("the verbs transport is ") + kMissing);
}

}  // namespace

std::unique_ptr<Endpoint> make_endpoint(const Membership&, const VerbsConfig&) { refuse(); }
std::unique_ptr<Endpoint> make_endpoint(const Membership&, const VerbsRingConfig&) { refuse(); }

std::string verbs::availability() { return kMissing; }
void verbs::check_device(const RdmaDevice&) { refuse(); }

}  // namespace jaxina
