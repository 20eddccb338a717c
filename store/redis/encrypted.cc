// SPDX-License-Identifier: Apache-2.0
// TLS on a connection to a Redis server.
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "protocol/format.h"
#include "protocol/tls/channel.h"
#include "store/redis/socket.h"

namespace c10dd::store {
namespace {

constexpr std::size_t kCaBytes = 256 * 1024;

Result<tls::Trust> trust_of(const std::string& ca_file) {
  if (ca_file.empty()) return tls::Trust(tls::SystemCas{});
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(ca_file.c_str(), "rbe"),
                                                             std::fclose);
  if (!file) {
    return failure(Code::invalid_argument, "cannot read the CA of Redis, {}: {}; check --redis-ca",
                   ca_file, std::strerror(errno));
  }
  std::string text(kCaBytes, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file.get()));
  Result<std::vector<tls::Certificate>> cas = tls::certificates_of(text, ca_file);
  if (!cas) return failure(cas.error().code, "{}; check --redis-ca", cas.error().detail);
  return tls::Trust(tls::KnownCas{std::move(*cas)});
}

class EncryptedTransport final : public RedisTransport {
 public:
  EncryptedTransport(std::unique_ptr<RedisTransport> plain, const tls::Context& context,
                     const std::string& host)
      : plain_(std::move(plain)), channel_(context, host) {}

  Result<void> shake_hands() {
    while (true) {
      const Result<bool> done = channel_.shake_hands();
      const Result<void> sent = flush();
      if (!done) return done.error();
      if (!sent || *done) return sent;
      if (const Result<void> more = fetch(); !more) {
        return failure(Code::unavailable, "{} during the TLS handshake", more.error().detail);
      }
    }
  }

  Result<void> send(std::string_view bytes) override {
    while (!bytes.empty()) {
      const Result<std::size_t> taken = channel_.write(bytes);
      if (!taken) return lost(taken.error());
      bytes.remove_prefix(*taken);
      if (Result<void> sent = flush(); !sent) return sent;
    }
    return {};
  }

  Result<std::size_t> receive(std::span<char> into) override {
    while (true) {
      const Result<std::size_t> plain = channel_.read(into);
      if (!plain) return lost(plain.error());
      if (*plain > 0) return plain;
      if (channel_.has_ended()) {
        return failure(Code::unavailable, "the server closed the connection");
      }
      if (Result<void> more = fetch(); !more) return more.error();
    }
  }

 private:
  static Failure lost(const Failure& why) { return failure(Code::unavailable, why.detail); }

  Result<void> flush() {
    const std::string out(channel_.outgoing());
    channel_.sent(out.size());
    return plain_->send(out);
  }

  Result<void> fetch() {
    std::array<char, 16 * 1024> buffer;
    const Result<std::size_t> received = plain_->receive(buffer);
    if (!received) return received.error();
    channel_.receive({buffer.data(), *received});
    return {};
  }

  std::unique_ptr<RedisTransport> plain_;
  tls::Channel channel_;
};

}  // namespace

Result<std::unique_ptr<RedisTransport>> connect_encrypted(const std::string& host,
                                                          std::uint16_t port, Duration patience,
                                                          const std::string& ca_file) {
  tls::keep_until_exit();  // threads of engines may outlive main()
  const Result<tls::Trust> trust = trust_of(ca_file);
  if (!trust) return trust.error();
  const Result<tls::Context> context = tls::Context::client(*trust, nullptr, tls::kRedisWords);
  if (!context) return context.error();
  Result<RedisSocket> socket = RedisSocket::connect(host, port, patience);
  if (!socket) return socket.error();
  auto made = std::make_unique<EncryptedTransport>(
      std::make_unique<RedisSocket>(std::move(*socket)), *context, host);
  if (Result<void> done = made->shake_hands(); !done) return done.error();
  return std::unique_ptr<RedisTransport>(std::move(made));
}

}  // namespace c10dd::store
