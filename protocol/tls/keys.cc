// SPDX-License-Identifier: Apache-2.0
#include "protocol/tls/keys.h"

#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ecdsa.h>
#include <openssl/param_build.h>
#include <openssl/pem.h>

#include <array>
#include <vector>

#include "protocol/format.h"
#include "protocol/tls/openssl.h"

namespace c10dd::tls {
namespace {

constexpr int kNumberBytes = 32;  // of a signature or a coordinate on P-256
constexpr int kLeastRsaBits = 2048;

using OwnedNumber = Owned<BIGNUM, BN_free>;
using OwnedSignature = Owned<ECDSA_SIG, ECDSA_SIG_free>;
using OwnedParameters = Owned<OSSL_PARAM, OSSL_PARAM_free>;
using OwnedBuilder = Owned<OSSL_PARAM_BLD, OSSL_PARAM_BLD_free>;
using OwnedContext = Owned<EVP_PKEY_CTX, EVP_PKEY_CTX_free>;
using OwnedDigest = Owned<EVP_MD_CTX, EVP_MD_CTX_free>;

const unsigned char* bytes_of(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

OwnedNumber number_of(std::string_view bytes) {
  return OwnedNumber(BN_bin2bn(bytes_of(bytes), static_cast<int>(bytes.size()), nullptr));
}

/// Returns whether two numbers can be an RSA key that checks signatures. Does not look for the
/// factors of the modulus: OpenSSL takes 3 to 120 ms for a key, and a set has 64.
bool may_be_rsa(const BIGNUM* modulus, const BIGNUM* exponent) {
  constexpr int kMostExponentBits = 64;  // OpenSSL's limit beside a large modulus
  return BN_is_odd(modulus) == 1 && BN_is_odd(exponent) == 1 && BN_is_one(exponent) == 0 &&
         BN_num_bits(exponent) <= kMostExponentBits;
}

/// Returns a public key from its parameters, or null.
EVP_PKEY* public_key(const char* kind, OSSL_PARAM_BLD* builder) {
  const OwnedParameters parameters(OSSL_PARAM_BLD_to_param(builder));
  const OwnedContext context(EVP_PKEY_CTX_new_from_name(nullptr, kind, nullptr));
  EVP_PKEY* key = nullptr;
  if (!parameters || !context || EVP_PKEY_fromdata_init(context.get()) <= 0 ||
      EVP_PKEY_fromdata(context.get(), &key, EVP_PKEY_PUBLIC_KEY, parameters.get()) <= 0) {
    return nullptr;
  }
  return key;
}

/// Returns a key if OpenSSL finds nothing wrong with it, or null.
EVP_PKEY* checked(EVP_PKEY* key) {
  if (key == nullptr) return nullptr;
  const OwnedContext context(EVP_PKEY_CTX_new_from_pkey(nullptr, key, nullptr));
  if (context && EVP_PKEY_public_check(context.get()) == 1) return key;
  EVP_PKEY_free(key);
  return nullptr;
}

/// Returns an ECDSA signature in the form that OpenSSL takes, DER; empty if it has another size.
std::string der_of(std::string_view signature) {
  if (signature.size() != 2 * kNumberBytes) return {};
  OwnedNumber r = number_of(signature.substr(0, kNumberBytes));
  OwnedNumber s = number_of(signature.substr(kNumberBytes));
  const OwnedSignature both(ECDSA_SIG_new());
  ECDSA_SIG_set0(both.get(), r.release(), s.release());
  unsigned char* der = nullptr;
  const int size = i2d_ECDSA_SIG(both.get(), &der);
  std::string out(reinterpret_cast<char*>(der), static_cast<std::size_t>(std::max(size, 0)));
  OPENSSL_free(der);
  return out;
}

/// Asks for no pass phrase.
int no_pass_phrase(char*, int, int, void*) { return 0; }

}  // namespace

Key::Key(evp_pkey_st* taken) : key_(taken, EVP_PKEY_free) { C10DD_ASSERT(taken != nullptr); }

Key Key::make() { return Key(EVP_EC_gen("P-256")); }

Result<Key> Key::from_private_pem(std::string_view pem, std::string_view what) {
  ERR_clear_error();
  EVP_PKEY* const key =
      PEM_read_bio_PrivateKey(bio_of(pem).get(), nullptr, no_pass_phrase, nullptr);
  if (key != nullptr) return Key(key);
  ERR_clear_error();
  return failure(Code::invalid_argument,
                 "{} has no private key in PEM that can be read without a pass phrase", what);
}

Result<Key> Key::from_ec_point(std::string_view x, std::string_view y) {
  ERR_clear_error();
  const OwnedBuilder builder(OSSL_PARAM_BLD_new());
  std::string point = "\x04";
  point.append(x).append(y);
  EVP_PKEY* key = nullptr;
  if (x.size() == kNumberBytes && y.size() == kNumberBytes) {
    OSSL_PARAM_BLD_push_utf8_string(builder.get(), OSSL_PKEY_PARAM_GROUP_NAME, "prime256v1", 0);
    OSSL_PARAM_BLD_push_octet_string(builder.get(), OSSL_PKEY_PARAM_PUB_KEY, point.data(),
                                     point.size());
    key = checked(public_key("EC", builder.get()));
  }
  ERR_clear_error();
  if (key == nullptr) return failure(Code::invalid_argument, "x and y are not a point on P-256");
  return Key(key);
}

Result<Key> Key::from_rsa(std::string_view modulus, std::string_view exponent) {
  constexpr std::size_t kMostBytes = 1024;
  ERR_clear_error();
  EVP_PKEY* key = nullptr;
  if (modulus.size() <= kMostBytes && exponent.size() <= kMostBytes) {
    const OwnedNumber n = number_of(modulus);
    const OwnedNumber e = number_of(exponent);
    const OwnedBuilder builder(OSSL_PARAM_BLD_new());
    OSSL_PARAM_BLD_push_BN(builder.get(), OSSL_PKEY_PARAM_RSA_N, n.get());
    OSSL_PARAM_BLD_push_BN(builder.get(), OSSL_PKEY_PARAM_RSA_E, e.get());
    if (may_be_rsa(n.get(), e.get())) key = public_key("RSA", builder.get());
  }
  ERR_clear_error();
  if (key == nullptr) return failure(Code::invalid_argument, "n and e are not an RSA key");
  Key made(key);
  if (made.fits(Signature::rs256)) return made;
  return failure(Code::invalid_argument, "the RSA key has {} bits, but needs {} or more",
                 EVP_PKEY_get_bits(key), kLeastRsaBits);
}

std::string Key::private_pem() const {
  const OwnedBio out(BIO_new(BIO_s_mem()));
  const int written =
      PEM_write_bio_PrivateKey(out.get(), get(), nullptr, nullptr, 0, nullptr, nullptr);
  C10DD_ASSERT(written == 1);
  return text_of(out);
}

std::string sha256(std::string_view text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int length = 0;
  EVP_Digest(text.data(), text.size(), digest.data(), &length, EVP_sha256(), nullptr);
  return {reinterpret_cast<const char*>(digest.data()), length};
}

std::string Key::hash() const {
  unsigned char* der = nullptr;
  const int size = i2d_PUBKEY(get(), &der);
  C10DD_ASSERT(size > 0);
  std::string hash = sha256({reinterpret_cast<const char*>(der), static_cast<std::size_t>(size)});
  OPENSSL_free(der);
  return hash;
}

std::string Key::sign(std::string_view text) const {
  const OwnedDigest context(EVP_MD_CTX_new());
  std::size_t size = 0;
  const bool begun =
      EVP_DigestSignInit(context.get(), nullptr, EVP_sha256(), nullptr, get()) == 1 &&
      EVP_DigestSign(context.get(), nullptr, &size, bytes_of(text), text.size()) == 1;
  C10DD_ASSERT(begun);
  std::vector<unsigned char> der(size);
  const int done = EVP_DigestSign(context.get(), der.data(), &size, bytes_of(text), text.size());
  C10DD_ASSERT(done == 1);
  const unsigned char* at = der.data();
  const OwnedSignature both(d2i_ECDSA_SIG(nullptr, &at, static_cast<long>(size)));
  C10DD_ASSERT(both != nullptr);
  std::array<unsigned char, std::size_t{2} * kNumberBytes> out{};
  BN_bn2binpad(ECDSA_SIG_get0_r(both.get()), out.data(), kNumberBytes);
  BN_bn2binpad(ECDSA_SIG_get0_s(both.get()), out.data() + kNumberBytes, kNumberBytes);
  return {reinterpret_cast<const char*>(out.data()), out.size()};
}

bool Key::fits(Signature how) const {
  if (how == Signature::rs256) {
    return EVP_PKEY_is_a(get(), "RSA") == 1 && EVP_PKEY_get_bits(get()) >= kLeastRsaBits;
  }
  std::array<char, 64> group{};
  return EVP_PKEY_is_a(get(), "EC") == 1 &&
         EVP_PKEY_get_group_name(get(), group.data(), group.size(), nullptr) == 1 &&
         std::string_view(group.data()) == "prime256v1";
}

bool Key::verifies(Signature how, std::string_view text, std::string_view signature) const {
  if (!fits(how)) return false;
  const std::string taken = how == Signature::es256 ? der_of(signature) : std::string(signature);
  const OwnedDigest context(EVP_MD_CTX_new());
  ERR_clear_error();
  const bool good =
      !taken.empty() &&
      EVP_DigestVerifyInit(context.get(), nullptr, EVP_sha256(), nullptr, get()) == 1 &&
      EVP_DigestVerify(context.get(), bytes_of(taken), taken.size(), bytes_of(text), text.size()) ==
          1;
  ERR_clear_error();
  return good;
}

bool Key::is_same(const Key& other) const { return EVP_PKEY_eq(get(), other.get()) == 1; }

}  // namespace c10dd::tls
