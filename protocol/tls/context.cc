// SPDX-License-Identifier: Apache-2.0
#include "protocol/tls/context.h"

#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <algorithm>

#include "protocol/format.h"
#include "protocol/tls/openssl.h"

namespace c10dd::tls {
namespace {

using OwnedStore = Owned<X509_STORE, X509_STORE_free>;

// Of TLS 1.2; all of TLS 1.3 are as good.
constexpr const char* kCiphers = "ECDHE+AESGCM:ECDHE+CHACHA20";
constexpr const char* kGroups = "X25519:P-256:P-384";

// Who is given an intermediate CA trusts it, whatever stands above it.
constexpr unsigned long kTrustOfIntermediates = X509_V_FLAG_PARTIAL_CHAIN;

void free_stack(STACK_OF(X509) * stack) { sk_X509_free(stack); }  // not what is on it

OwnedStore store_of(const std::vector<Certificate>& cas) {
  OwnedStore store(X509_STORE_new());
  for (const Certificate& one : cas) X509_STORE_add_cert(store.get(), one.get());
  X509_STORE_set_flags(store.get(), kTrustOfIntermediates);
  return store;
}

using Stack = Owned<STACK_OF(X509), free_stack>;

/// What a peer has sent, for a client that knows the hash of a CA's key.
struct SentCas {
  Stack trusted{sk_X509_new_null()};  ///< those of the key
  Stack others{sk_X509_new_null()};   ///< those that may stand between it and the peer
};

/// A CA that is being renewed has several certificates of its key: one that it has signed itself,
/// and one of the other CA. What another root has signed leads nowhere: only the key is trusted.
SentCas sent_cas(X509_STORE_CTX* check, const std::string& hash) {
  SentCas found;
  STACK_OF(X509)* const sent = X509_STORE_CTX_get0_untrusted(check);
  for (int at = 0; at < sk_X509_num(sent); ++at) {
    X509* const one = sk_X509_value(sent, at);
    EVP_PKEY* const key = X509_get_pubkey(one);
    if (key == nullptr) continue;
    const bool is_it = Key(key).hash() == hash && X509_check_ca(one) == 1;
    if (is_it) sk_X509_push(found.trusted.get(), one);
    const bool is_root = (X509_get_extension_flags(one) & EXFLAG_SS) != 0;
    if (!is_it && !is_root) sk_X509_push(found.others.get(), one);
  }
  return found;
}

/// Trusts the one CA that the hash names.
int verify_by_hash(X509_STORE_CTX* check, void* hash) {
  const SentCas sent = sent_cas(check, *static_cast<const std::string*>(hash));
  if (sk_X509_num(sent.trusted.get()) == 0) {
    X509_STORE_CTX_set_error(check, X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY);
    return 0;
  }
  STACK_OF(X509)* const all = X509_STORE_CTX_get0_untrusted(check);
  X509_STORE_CTX_set0_trusted_stack(check, sent.trusted.get());
  X509_STORE_CTX_set0_untrusted(check, sent.others.get());
  X509_STORE_CTX_set_flags(check, kTrustOfIntermediates);
  int good = X509_verify_cert(check);
  X509_STORE_CTX_set0_trusted_stack(check, nullptr);
  X509_STORE_CTX_set0_untrusted(check, all);
  X509* const leaf = X509_STORE_CTX_get0_cert(check);
  X509_up_ref(leaf);
  const Certificate shown(leaf);
  if (good == 1 && !shown.may_serve()) {  // no host name says whose it is
    X509_STORE_CTX_set_error(check, X509_V_ERR_INVALID_PURPOSE);
    good = 0;
  }
  return good;
}

/// Notes whether the certificate of a client is good. Takes the client in any case: a token may say
/// who it is.
int verify_client(X509_STORE_CTX* check, void*) {
  ERR_set_mark();
  const bool good = X509_verify_cert(check) == 1;
  ERR_pop_to_mark();
  if (!good && X509_STORE_CTX_get_error(check) == X509_V_OK) {
    X509_STORE_CTX_set_error(check, X509_V_ERR_UNSPECIFIED);
  }
  return 1;
}

/// Lets a connection show this identity. Returns whether OpenSSL takes it.
bool show(ssl_ctx_st* context, const Identity& identity) {
  STACK_OF(X509)* const above = sk_X509_new_null();
  for (std::size_t at = 1; at < identity.chain.size(); ++at) {
    sk_X509_push(above, identity.chain[at].get());
  }
  const int good =
      SSL_CTX_use_cert_and_key(context, identity.chain.at(0).get(), identity.key.get(), above, 1);
  sk_X509_free(above);
  return good == 1;
}

}  // namespace

void keep_until_exit() { OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, nullptr); }

Result<Identity> identity_of(std::string_view chain_pem, std::string_view chain_name,
                             std::string_view key_pem, std::string_view key_name) {
  Result<std::vector<Certificate>> chain = certificates_of(chain_pem, chain_name);
  if (!chain) return chain.error();
  Result<Key> key = Key::from_private_pem(key_pem, key_name);
  if (!key) return key.error();
  if (!key->is_same(chain->front().key())) {
    return failure(Code::invalid_argument,
                   "the key in {} does not belong to the first certificate in {}", key_name,
                   chain_name);
  }
  return Identity{std::move(*chain), std::move(*key)};
}

Context::Context(bool is_server)
    : context_(SSL_CTX_new(is_server ? TLS_server_method() : TLS_client_method()), SSL_CTX_free),
      is_server_(is_server) {
  C10DD_ASSERT(context_ != nullptr);
  SSL_CTX_set_min_proto_version(get(), TLS1_2_VERSION);
  SSL_CTX_set_options(get(), SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_TICKET | SSL_OP_NO_COMPRESSION |
                                 SSL_OP_CIPHER_SERVER_PREFERENCE);
  SSL_CTX_set_num_tickets(get(), 0);
  SSL_CTX_set_session_cache_mode(get(), SSL_SESS_CACHE_OFF);
  SSL_CTX_set_mode(get(), SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
                              SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  const bool good = SSL_CTX_set_cipher_list(get(), kCiphers) == 1 &&
                    SSL_CTX_set1_groups_list(get(), kGroups) == 1;
  C10DD_ASSERT(good);
}

Result<Context> Context::server(const Identity& identity,
                                const std::vector<Certificate>& client_cas) {
  Context made(true);
  ERR_clear_error();
  if (!show(made.get(), identity)) {
    return failure(Code::invalid_argument, "the certificate cannot be used for TLS: {}",
                   last_error());
  }
  if (client_cas.empty()) return made;
  SSL_CTX_set1_cert_store(made.get(), store_of(client_cas).get());
  for (const Certificate& one : client_cas) SSL_CTX_add_client_CA(made.get(), one.get());
  SSL_CTX_set_verify(made.get(), SSL_VERIFY_PEER, nullptr);
  SSL_CTX_set_cert_verify_callback(made.get(), verify_client, nullptr);
  return made;
}

const ServerWords kDaemonWords = {"the daemon", "this client",
                                  "use a token of this cluster, or set C10DD_CA_FILE to its CA",
                                  "start it with --tls, or use it without a token and a CA"};
const ServerWords kDaemonOfCaFileWords = {
    "the daemon", "this client", "set C10DD_CA_FILE to the ca.crt of this daemon, or leave it out",
    kDaemonWords.plain};
const ServerWords kFleetWords = {"the daemon", "the daemon that has connected",
                                 "give both daemons a ca.crt with the CAs of both",
                                 "start it with --tls, too"};
const ServerWords kRedisWords = {"the Redis server", "this client", "give its CA with --redis-ca",
                                 "use its tls-port, or a URL that begins with redis"};

Result<Context> Context::client(const Trust& trust, const Identity* identity,
                                const ServerWords& words) {
  Context made(false);
  made.words_ = &words;
  ERR_clear_error();
  if (identity != nullptr && !show(made.get(), *identity)) {
    return failure(Code::invalid_argument, "the certificate cannot be used for TLS: {}",
                   last_error());
  }
  SSL_CTX_set_verify(made.get(), SSL_VERIFY_PEER, nullptr);
  if (const auto* by_hash = std::get_if<CaHash>(&trust)) {
    made.ca_hash_ = std::make_shared<const std::string>(by_hash->hash);
    SSL_CTX_set_cert_verify_callback(made.get(), verify_by_hash,
                                     const_cast<std::string*>(made.ca_hash_.get()));
    return made;
  }
  made.checks_host_ = true;
  if (const auto* known = std::get_if<KnownCas>(&trust)) {
    SSL_CTX_set1_cert_store(made.get(), store_of(known->all).get());
  } else {
    SSL_CTX_set_default_verify_paths(made.get());
    X509_STORE_set_flags(SSL_CTX_get_cert_store(made.get()), kTrustOfIntermediates);
  }
  return made;
}

}  // namespace c10dd::tls
