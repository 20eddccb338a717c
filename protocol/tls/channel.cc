// SPDX-License-Identifier: Apache-2.0
// OpenSSL reads and writes through a BIO whose two ends are strings, which are freed while they are
// empty: an idle connection holds no buffer.
#include "protocol/tls/channel.h"

#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "protocol/format.h"
#include "protocol/tls/openssl.h"
#include "protocol/utf8.h"

namespace c10dd::tls {

/// What has come, and what is to be sent.
struct Channel::Bytes {
  std::string in;
  std::size_t taken = 0;  // of `in`
  bool end = false;
  std::string out;
  std::size_t sent = 0;  // of `out`
};

namespace {

constexpr std::size_t kRecord = 16'384;  // plain bytes

/// Frees a string that is used up.
void release(std::string& text, std::size_t& used) {
  if (used < text.size()) return;
  std::string().swap(text);
  used = 0;
}

template <class Bytes>
int read_bytes(BIO* bio, char* into, int size) {
  auto& bytes = *static_cast<Bytes*>(BIO_get_data(bio));
  BIO_clear_retry_flags(bio);
  const std::size_t count =
      std::min(bytes.in.size() - bytes.taken, static_cast<std::size_t>(std::max(size, 0)));
  if (count == 0) {
    if (bytes.end) return 0;
    BIO_set_retry_read(bio);
    return -1;
  }
  std::memcpy(into, bytes.in.data() + bytes.taken, count);
  bytes.taken += count;
  release(bytes.in, bytes.taken);
  return static_cast<int>(count);
}

template <class Bytes>
int write_bytes(BIO* bio, const char* from, int size) {
  auto& bytes = *static_cast<Bytes*>(BIO_get_data(bio));
  bytes.out.append(from, static_cast<std::size_t>(std::max(size, 0)));
  return size;
}

template <class Bytes>
long control(BIO* bio, int what, long, void*) {
  const auto& bytes = *static_cast<Bytes*>(BIO_get_data(bio));
  if (what == BIO_CTRL_FLUSH) return 1;
  return what == BIO_CTRL_EOF && bytes.end && bytes.taken == bytes.in.size() ? 1 : 0;
}

template <class Bytes>
BIO_METHOD* method() {
  static BIO_METHOD* const made = [] {
    BIO_METHOD* const of = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "c10dd");
    BIO_meth_set_read(of, read_bytes<Bytes>);
    BIO_meth_set_write(of, write_bytes<Bytes>);
    BIO_meth_set_ctrl(of, control<Bytes>);
    return of;
  }();
  return made;
}

/// Forgets old errors, which SSL_get_error() would report. ERR_clear_error() takes about as long as
/// a small record, also if there is none.
void forget_errors() {
  if (ERR_peek_error() != 0) ERR_clear_error();
}

/// Says what is wrong with a certificate, and what to do; empty if nothing is.
std::string certificate_text(long result, const Context& context, const std::string& host) {
  const bool is_server = context.is_server();
  const std::string whose =
      (is_server ? "the client" : std::string(context.words().name)) + "'s certificate";
  switch (result) {
    case X509_V_OK:
      return {};
    case X509_V_ERR_CERT_HAS_EXPIRED:
      return whose + " has expired; renew it";
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return whose + " is not valid yet; compare the clocks of both hosts";
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
      return format("{} is not for {}; use a name in it, or issue it for this one", whose,
                    printable(host, 253));
    case X509_V_ERR_INVALID_PURPOSE:
      return format("{} is not one for a {}; issue it with the usage {}", whose,
                    is_server ? "client" : "server", is_server ? "clientAuth" : "serverAuth");
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
      return format("{} is not signed by a CA that {} trusts; {}", whose,
                    is_server ? "this daemon" : context.words().self,
                    is_server ? "use a certificate of its CA" : context.words().distrusted);
    default:
      return format("{} is refused: {}", whose, X509_verify_cert_error_string(result));
  }
}

/// Says why a handshake or a record has failed, from the newest error of OpenSSL.
std::string protocol_text(const Context& context) {
  const unsigned long error = ERR_peek_last_error();
  const bool is_server = context.is_server();
  const std::string peer = is_server ? "the client" : context.words().name;
  const std::string no_server =
      format("{} does not speak TLS 1.2 or 1.3; {}", peer, context.words().plain);
  switch (ERR_GET_REASON(error)) {
    case SSL_R_WRONG_VERSION_NUMBER:
    case SSL_R_HTTP_REQUEST:
    case SSL_R_UNKNOWN_PROTOCOL:
      return is_server ? "the client does not speak TLS" : no_server;
    case SSL_R_UNSUPPORTED_PROTOCOL:
    case SSL_R_TLSV1_ALERT_PROTOCOL_VERSION:
      return is_server ? "the client does not speak TLS 1.2 or 1.3" : no_server;
    case SSL_R_NO_SHARED_CIPHER:
    case SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE:
      return peer + " shares no cipher with this end, which needs ECDHE and AEAD";
    case SSL_R_TLSV1_ALERT_UNKNOWN_CA:
      return peer + " does not trust the CA of this end's certificate";
    case SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED:
      return peer + " says that the certificate expired";
    case SSL_R_SSLV3_ALERT_BAD_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN:
      return format("{} refuses the certificate of this end: {}", peer, last_error());
    default:
      return format("TLS with {} failed: {}", peer, last_error());
  }
}

}  // namespace

Channel::Channel(const Context& context, const std::string& host)
    : context_(context),
      host_(host),
      bytes_(std::make_unique<Bytes>()),
      ssl_(SSL_new(context.get()), SSL_free) {
  BIO* const bio = BIO_new(method<Bytes>());
  C10DD_ASSERT(ssl_ != nullptr && bio != nullptr);
  BIO_set_data(bio, bytes_.get());
  BIO_set_init(bio, 1);
  SSL_set_bio(ssl_.get(), bio, bio);
  if (context_.is_server()) {
    SSL_set_accept_state(ssl_.get());
    return;
  }
  SSL_set_connect_state(ssl_.get());
  if (host.empty()) return;
  const std::unique_ptr<ASN1_OCTET_STRING, void (*)(ASN1_OCTET_STRING*)> address(
      a2i_IPADDRESS(host.c_str()), ASN1_OCTET_STRING_free);
  ERR_clear_error();
  if (!address) SSL_set_tlsext_host_name(ssl_.get(), host.c_str());
  if (!context.checks_host()) return;
  if (address) {
    X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl_.get()), host.c_str());
  } else {
    SSL_set1_host(ssl_.get(), host.c_str());
  }
}

Channel::~Channel() = default;
Channel::Channel(Channel&& other) noexcept = default;

void Channel::receive(std::string_view bytes) { bytes_->in.append(bytes); }
void Channel::receive_end() { bytes_->end = true; }

Result<bool> Channel::shake_hands() {
  if (open_) return true;
  ERR_clear_error();
  const int result = SSL_do_handshake(ssl_.get());
  if (result == 1) return open_ = true;
  const int error = SSL_get_error(ssl_.get(), result);
  if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) return false;
  return failed(result);
}

/// Makes the failure of a call that returned `result`.
Failure Channel::failed(int result) {
  const int error = SSL_get_error(ssl_.get(), result);
  const char* const peer = context_.is_server() ? "the client" : context_.words().name;
  if (error == SSL_ERROR_ZERO_RETURN || (error == SSL_ERROR_SYSCALL && bytes_->end) ||
      ERR_GET_REASON(ERR_peek_last_error()) == SSL_R_UNEXPECTED_EOF_WHILE_READING) {
    ERR_clear_error();
    return failure(Code::unavailable, "{} closed the connection during {}", peer,
                   open_ ? "a TLS record" : "the TLS handshake");
  }
  const long verified = SSL_get_verify_result(ssl_.get());
  // A server goes on without the certificate of a client that is not good.
  const bool by_certificate = !open_ && !context_.is_server();
  std::string text = by_certificate ? certificate_text(verified, context_, host_) : "";
  if (text.empty()) text = protocol_text(context_);
  ERR_clear_error();
  return failure(Code::permission_denied, std::move(text));
}

Result<std::size_t> Channel::read(std::span<char> into) {
  C10DD_ASSERT(open_);
  if (ended_ || into.empty()) return 0;
  // Without bytes OpenSSL would make a buffer and free it.
  if (bytes_->in.empty() && !bytes_->end && SSL_has_pending(ssl_.get()) == 0) return 0;
  forget_errors();
  const int most = static_cast<int>(std::min<std::size_t>(into.size(), 1U << 30U));
  const int result = SSL_read(ssl_.get(), into.data(), most);
  if (result > 0) return static_cast<std::size_t>(result);
  const int error = SSL_get_error(ssl_.get(), result);
  if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) return 0;
  if (error != SSL_ERROR_ZERO_RETURN) return failed(result);
  ended_ = true;
  return 0;
}

Result<std::size_t> Channel::write(std::string_view plain) {
  C10DD_ASSERT(open_);
  if (plain.empty()) return 0;
  forget_errors();
  const int size = static_cast<int>(std::min(plain.size(), kRecord));
  const int result = SSL_write(ssl_.get(), plain.data(), size);
  if (result > 0) return static_cast<std::size_t>(result);
  return failed(result);
}

void Channel::close() {
  ERR_clear_error();
  // Called a second time, SSL_shutdown() reads the bytes that the peer has sent, and drops them.
  const bool said = (SSL_get_shutdown(ssl_.get()) & SSL_SENT_SHUTDOWN) != 0;
  if (open_ && !said) SSL_shutdown(ssl_.get());
  ERR_clear_error();
}

std::string_view Channel::outgoing() const {
  return std::string_view(bytes_->out).substr(bytes_->sent);
}

void Channel::sent(std::size_t count) {
  bytes_->sent += count;
  C10DD_ASSERT(bytes_->sent <= bytes_->out.size());
  release(bytes_->out, bytes_->sent);
}

std::optional<Certificate> Channel::peer() const {
  if (SSL_get_verify_result(ssl_.get()) != X509_V_OK) return std::nullopt;
  X509* const shown = SSL_get1_peer_certificate(ssl_.get());
  if (shown == nullptr) return std::nullopt;
  return Certificate(shown);
}

std::string Channel::peer_refused() const {
  return certificate_text(SSL_get_verify_result(ssl_.get()), context_, host_);
}

std::string Channel::peer_ca() const {
  if (SSL_get_verify_result(ssl_.get()) != X509_V_OK) return {};
  STACK_OF(X509)* const chain = SSL_get0_verified_chain(ssl_.get());
  const int length = chain == nullptr ? 0 : sk_X509_num(chain);
  if (length == 0) return {};
  EVP_PKEY* const key = X509_get_pubkey(sk_X509_value(chain, length - 1));
  return key == nullptr ? std::string() : Key(key).hash();
}

std::string Channel::version() const { return SSL_get_version(ssl_.get()); }

std::size_t Channel::held() const { return bytes_->in.capacity() + bytes_->out.capacity(); }

}  // namespace c10dd::tls
