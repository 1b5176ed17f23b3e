#include "rdma_engine/encryption/availability.h"
#include "rdma_engine/encryption/cipher.h"
#include "rdma_engine/errors.h"

namespace jaxina::encryption {
namespace {

constexpr char kMissing[] =
    "not built: the headers of OpenSSL were not there (Debian: libssl-dev); install them and build jaxina again";

}  // namespace

std::string availability() { return kMissing; }
void check_available() { throw Error(ErrorCode::kInvalidArgument, std::string("encryption is ") + kMissing); }

Cipher::Cipher(Direction, const JobKey&, const KeyUse&) { check_available(); }
void Cipher::Free::operator()(evp_cipher_ctx_st*) const {}
void Cipher::encrypt(std::uint64_t, std::span<const std::uint8_t>, std::span<const std::uint8_t>, std::uint8_t*,
                     std::uint8_t*) {}
bool Cipher::decrypt(std::uint64_t, std::span<const std::uint8_t>, std::span<std::uint8_t>, std::uint8_t*) {
  return false;
}

}  // namespace jaxina::encryption
