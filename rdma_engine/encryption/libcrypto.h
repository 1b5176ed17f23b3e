// Libcrypto: the functions of OpenSSL's libcrypto that jaxina calls. The library is loaded when it is first used, so a
// host without it can load jaxina, and a host's own updates of the library reach jaxina.
#pragma once

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>

namespace jaxina::encryption {

struct Libcrypto {
  // Throws Error(kInvalidArgument) if this host has no such library.
  Libcrypto();

  void* const library;
  decltype(&EVP_CIPHER_fetch) const cipher_fetch;
  decltype(&EVP_CIPHER_free) const cipher_free;
  decltype(&EVP_CIPHER_CTX_new) const context_new;
  decltype(&EVP_CIPHER_CTX_free) const context_free;
  decltype(&EVP_CipherInit_ex2) const cipher_init;
  decltype(&EVP_CipherUpdate) const cipher_update;
  decltype(&EVP_CipherFinal_ex) const cipher_final;
  decltype(&EVP_CIPHER_CTX_get_params) const get_params;
  decltype(&EVP_KDF_fetch) const kdf_fetch;
  decltype(&EVP_KDF_free) const kdf_free;
  decltype(&EVP_KDF_CTX_new) const kdf_context_new;
  decltype(&EVP_KDF_CTX_free) const kdf_context_free;
  decltype(&EVP_KDF_derive) const kdf_derive;
  decltype(&OpenSSL_version) const version;
};

// The library. The first call loads it. Throws Error(kInvalidArgument) if it is not there.
const Libcrypto& libcrypto();

}  // namespace jaxina::encryption
