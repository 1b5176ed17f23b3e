#include "rdma_engine/encryption/libcrypto.h"

#include <dlfcn.h>

#include <string>

#include "rdma_engine/encryption/availability.h"
#include "rdma_engine/errors.h"

namespace jaxina::encryption {
namespace {

constexpr char kName[] = "libcrypto.so.3";

void* load() {
  // Never closed: its objects live as long as the process.
  void* const loaded = dlopen(kName, RTLD_NOW | RTLD_LOCAL);
  if (loaded == nullptr) {
    throw Error(ErrorCode::kInvalidArgument,
                std::string("encryption needs OpenSSL 3, and this host has no ") + kName + " (Debian: libssl3)");
  }
  return loaded;
}

template <typename Function>
Function find(void* library, const char* name) {
  void* const address = dlsym(library, name);
  if (address == nullptr) {
    throw Error(ErrorCode::kInvalidArgument,
                std::string("encryption needs OpenSSL 3, and this host's ") + kName + " has no " + name);
  }
  return reinterpret_cast<Function>(address);
}

}  // namespace

#define FIND(name) find<decltype(&(name))>(library, #name)

Libcrypto::Libcrypto()
    : library(load()),
      cipher_fetch(FIND(EVP_CIPHER_fetch)),
      cipher_free(FIND(EVP_CIPHER_free)),
      context_new(FIND(EVP_CIPHER_CTX_new)),
      context_free(FIND(EVP_CIPHER_CTX_free)),
      cipher_init(FIND(EVP_CipherInit_ex2)),
      cipher_update(FIND(EVP_CipherUpdate)),
      cipher_final(FIND(EVP_CipherFinal_ex)),
      get_params(FIND(EVP_CIPHER_CTX_get_params)),
      kdf_fetch(FIND(EVP_KDF_fetch)),
      kdf_free(FIND(EVP_KDF_free)),
      kdf_context_new(FIND(EVP_KDF_CTX_new)),
      kdf_context_free(FIND(EVP_KDF_CTX_free)),
      kdf_derive(FIND(EVP_KDF_derive)),
      version(FIND(OpenSSL_version)) {}

const Libcrypto& libcrypto() {
  static const Libcrypto loaded;
  return loaded;
}

std::string availability() {
  try {
    return libcrypto().version(OPENSSL_VERSION);
  } catch (const Error& error) {
    return error.status().message;
  }
}

void check_available() { libcrypto(); }

}  // namespace jaxina::encryption
