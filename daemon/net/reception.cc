// SPDX-License-Identifier: Apache-2.0
#include "daemon/net/reception.h"
#include "daemon/net/refusal_log.h"

#include <array>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <utility>

#include "daemon/config/option_values.h"
#include "daemon/metrics/metrics.h"
#include "protocol/format.h"
#include "protocol/wording.h"

namespace c10dd::daemon {
namespace {

constexpr char kTlsRecord = 0x16;  // the first byte of a connection that speaks TLS

Failure plain_refused() {
  return failure(Code::unauthenticated,
                 "this daemon asks for TLS and a token; set C10DD_TOKEN_FILE to a token of this "
                 "cluster");
}

Failure unknown_protocol(const WireProtocol* disabled, unsigned char first,
                         const ProtocolSet& enabled) {
  std::string hint;
  if (disabled) {
    const std::string_view name = name_of(disabled->protocol);
    hint = format("; it looks like {}: add {} to --protocols", name, name);
  }
  return failure(Code::malformed, "no enabled protocol begins with byte {}; enabled: {}{}", first,
                 list_of(enabled), hint);
}

}  // namespace

/// What a connection needs until its protocol serves it.
struct Reception::Rules {
  /// `self` keeps the rules alive.
  asio::awaitable<void> recognise(std::shared_ptr<const Rules> self, std::shared_ptr<Stream> stream,
                                  Result<void> admitted, bool encrypted = false) const;
  void decrypt(std::shared_ptr<const Rules> self, std::shared_ptr<Stream> stream,
               Result<void> admitted) const;
  bool wants_more(std::string_view head, bool admitted) const;
  asio::awaitable<void> refuse(std::shared_ptr<Stream> stream, const WireProtocol* encoding,
                               Failure reason) const;
  asio::awaitable<void> refuse_tls(std::shared_ptr<Stream> stream) const;

  const SessionContext& context;
  const Protocols protocols;
  const ProtocolSet enabled;
};

Reception::Reception(const SessionContext& context, Protocols protocols, ProtocolSet enabled)
    : rules_(std::make_shared<Rules>(Rules{context, std::move(protocols), enabled})) {}

void Reception::drop_unheard() {
  rules_->context.metrics.connection_closed(Protocol::unknown, "quota_exceeded");
}

void Reception::receive(std::shared_ptr<Stream> stream, Result<void> admitted) {
  const asio::any_io_executor loop = stream->executor();
  asio::co_spawn(loop, rules_->recognise(rules_, std::move(stream), std::move(admitted)),
                 asio::detached);
}

bool Reception::Rules::wants_more(std::string_view head, bool admitted) const {
  const Protocols::Found found = protocols.recognise(head);
  if (!found.protocol) return found.match == Match::maybe;
  return admitted && found.protocol->wants_more && found.protocol->wants_more(head);
}

/// Begins again with what a connection says inside TLS.
void Reception::Rules::decrypt(std::shared_ptr<const Rules> self, std::shared_ptr<Stream> stream,
                               Result<void> admitted) const {
  context.decrypt(std::move(stream), [self = std::move(self), admitted = std::move(admitted)](
                                         std::shared_ptr<Stream> plain) {
    const asio::any_io_executor loop = plain->executor();
    asio::co_spawn(loop, self->recognise(self, std::move(plain), admitted, true), asio::detached);
  });
}

asio::awaitable<void> Reception::Rules::recognise(std::shared_ptr<const Rules> self,
                                                  std::shared_ptr<Stream> stream,
                                                  Result<void> admitted, bool encrypted) const {
  // This coroutine shares this state with the handler of `deadline`. The handler may run after the
  // coroutine has ended.
  struct Watch {
    bool over = false;
    bool late = false;
  };
  const auto watch = std::make_shared<Watch>();
  asio::steady_timer deadline(stream->executor(), context.hello_deadline);
  deadline.async_wait([stream, watch](const ErrorCode& cancelled) {
    if (cancelled || watch->over) return;
    watch->late = true;
    stream->cancel();
  });
  std::array<char, 512> buffer;
  std::string head;
  ErrorCode failed;
  bool more = true;
  while (more && !failed && !watch->late) {
    const std::size_t n = co_await stream->read_next(asio::buffer(buffer), failed);
    head.append(buffer.data(), n);
    more = failed || wants_more(head, admitted.has_value());
  }
  watch->over = true;
  deadline.cancel();
  const WireProtocol* const found = protocols.recognise(head).protocol;
  if (more && found) {
    context.metrics.connection_opened(found->protocol);
    context.metrics.connection_closed(found->protocol, watch->late ? "hello_deadline" : "peer");
    co_return;
  }
  if (more) {
    const bool silent = watch->late && head.empty() && admitted;
    if (silent && protocols.keep_silent(stream, enabled)) co_return;
    context.metrics.connection_closed(Protocol::unknown, "nothing_said");
    co_return;
  }
  if (context.decrypt && !encrypted && head.front() == kTlsRecord) {
    stream->put_head(std::move(head));
    co_return decrypt(std::move(self), std::move(stream), std::move(admitted));
  }
  const bool served = found && enabled.has(found->protocol);
  const bool may_be_plain =
      encrypted || context.serves_plain || (found && found->protocol == Protocol::tcpstore);
  if (admitted && !may_be_plain) admitted = plain_refused();
  if (served && admitted && found->admits) admitted = found->admits(*stream);
  if (found && !admitted) {
    co_await refuse(std::move(stream), found, admitted.error());
  } else if (served) {
    stream->put_head(std::move(head));
    found->serve(std::move(stream));
  } else {
    if (head.front() == kTlsRecord) co_return co_await refuse_tls(std::move(stream));
    Failure reason = unknown_protocol(found, static_cast<unsigned char>(head.front()), enabled);
    const WireProtocol* const encoding = protocols.for_strangers(enabled);
    co_await refuse(std::move(stream), encoding, std::move(reason));
  }
}

/// Tells a client that this daemon does not speak TLS, as TLS does (RFC 8446, 6): by the fatal
/// alert protocol_version.
asio::awaitable<void> Reception::Rules::refuse_tls(std::shared_ptr<Stream> stream) const {
  constexpr std::string_view kAlert("\x15\x03\x01\x00\x02\x02\x46", 7);
  const Failure reason =
      failure(Code::unsupported,
              "the client speaks TLS, but this daemon runs without --tls; give it --tls");
  context.metrics.protocol_error(Protocol::unknown, reason.code);
  context.metrics.connection_closed(Protocol::unknown, "refused");
  log_refused("", stream->peer(), reason);
  ErrorCode failed;
  co_await stream->write_all(asio::buffer(kAlert), failed);
  co_await stream->finish();
}

/// Sends the reason in `encoding`, unless `encoding` is null. Then closes the connection.
asio::awaitable<void> Reception::Rules::refuse(std::shared_ptr<Stream> stream,
                                               const WireProtocol* encoding, Failure reason) const {
  const Protocol protocol = encoding ? encoding->protocol : Protocol::unknown;
  context.metrics.protocol_error(protocol, reason.code);
  context.metrics.connection_closed(Protocol::unknown, "refused");
  log_refused("", stream->peer(), reason);
  const std::string reply = encoding ? encoding->refusal(reason) : std::string();
  // Whoever has no room and gets no reply gives its place free at once.
  if (reply.empty() && reason.code == Code::quota_exceeded) co_return stream->give_place_free();
  ErrorCode failed;
  co_await stream->write_all(asio::buffer(reply), failed);
  co_await stream->finish();
}

}  // namespace c10dd::daemon
