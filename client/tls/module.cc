// SPDX-License-Identifier: Apache-2.0
// The module libc10dd_tls.so: TLS for the SDK, by protocol/tls.
#include <utility>

#include "client/internal/tls_module.h"
#include "protocol/tls/channel.h"
#include "protocol/tls/token.h"

namespace c10dd::client {
namespace {

class Channel final : public TlsChannel {
 public:
  Channel(const tls::Context& context, const std::string& host) : channel_(context, host) {}

  void receive(std::string_view bytes) override { channel_.receive(bytes); }
  void receive_end() override { channel_.receive_end(); }
  Result<bool> shake_hands() override { return channel_.shake_hands(); }
  Result<std::size_t> read(std::span<char> into) override { return channel_.read(into); }
  Result<std::size_t> write(std::string_view plain) override { return channel_.write(plain); }
  void close() override { channel_.close(); }
  std::string_view outgoing() const override { return channel_.outgoing(); }
  void sent(std::size_t count) override { channel_.sent(count); }
  bool has_ended() const override { return channel_.has_ended(); }

 private:
  tls::Channel channel_;
};

class Context final : public TlsContext {
 public:
  explicit Context(tls::Context context) : context_(std::move(context)) {}

  std::unique_ptr<TlsChannel> connect(const std::string& host) override {
    return std::make_unique<Channel>(context_, host);
  }

 private:
  const tls::Context context_;
};

/// Returns by what the client knows the daemon: see Credentials::ca_file.
Result<tls::Trust> trust_of(const CredentialTexts& texts) {
  if (!texts.ca.empty()) {
    Result<std::vector<tls::Certificate>> cas = tls::certificates_of(texts.ca, "C10DD_CA_FILE");
    if (!cas) return cas.error();
    return tls::Trust(tls::KnownCas{std::move(*cas)});
  }
  if (texts.token.empty()) return tls::Trust(tls::SystemCas{});
  const Result<tls::Token> token = tls::token_of(texts.token);
  if (!token) return token.error();
  if (token->issuer != tls::kOwnIssuer) return tls::Trust(tls::SystemCas{});
  const Result<tls::OwnToken> own = tls::own_token(*token);
  if (!own) return own.error();
  return tls::Trust(tls::CaHash{own->ca_hash});
}

Result<std::shared_ptr<TlsContext>> open(const CredentialTexts& texts) {
  tls::keep_until_exit();  // a client that is not closed has a thread until the process ends
  const Result<tls::Trust> trust = trust_of(texts);
  if (!trust) return trust.error();
  std::optional<tls::Identity> identity;
  if (!texts.cert.empty()) {
    Result<tls::Identity> shown =
        tls::identity_of(texts.cert, "C10DD_CERT_FILE", texts.key, "C10DD_KEY_FILE");
    if (!shown) return shown.error();
    identity = std::move(*shown);
  }
  const tls::ServerWords& words = texts.ca.empty() ? tls::kDaemonWords : tls::kDaemonOfCaFileWords;
  Result<tls::Context> context =
      tls::Context::client(*trust, identity ? &*identity : nullptr, words);
  if (!context) return context.error();
  return std::shared_ptr<TlsContext>(std::make_shared<Context>(std::move(*context)));
}

}  // namespace
}  // namespace c10dd::client

extern "C" __attribute__((visibility("default"))) const c10dd::client::ModuleHead*
c10dd_tls_module() {
  static const c10dd::client::TlsModule module = {.open = &c10dd::client::open};
  return &module.head;
}
