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
#include "daemon/net/newcomers.h"
#include "protocol/client_hello.h"
#include "protocol/format.h"
#include "protocol/wording.h"

namespace c10dd::daemon {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kLookEvery{50};

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

namespace {

/// Newcomers, and whether a timer will look at them.
struct Watched {
  Newcomers newcomers;
  bool looks = false;
};

/// What the coroutine that recognises a connection shares with handlers, which may run after the
/// coroutine has ended.
struct Watch {
  bool over = false;
  bool late = false;
  bool may_stay = true;
};

/// Ends newcomers whose time is over, as long as there are too many.
void look_soon(const asio::any_io_executor& loop, const std::shared_ptr<Watched>& watched) {
  if (!watched->newcomers.crowded() || std::exchange(watched->looks, true)) return;
  const auto timer = std::make_shared<asio::steady_timer>(loop, kLookEvery);
  timer->async_wait([timer, loop, watched](const ErrorCode& cancelled) {
    watched->looks = false;
    if (cancelled) return;
    watched->newcomers.look(Clock::now());
    look_soon(loop, watched);
  });
}

}  // namespace

/// What a connection needs until its protocol serves it.
struct Reception::Rules {
  /// `self` keeps the rules alive.
  asio::awaitable<void> recognise(std::shared_ptr<const Rules> self, std::shared_ptr<Stream> stream,
                                  Result<void> admitted, bool encrypted = false) const;
  void decrypt(std::shared_ptr<const Rules> self, std::shared_ptr<Stream> stream,
               Result<void> admitted) const;
  bool decrypts(std::string_view head, bool encrypted) const {
    return context.decrypt && !encrypted && head.front() == kTlsRecord;
  }
  bool wants_more(std::string_view head, bool admitted, bool encrypted) const;
  std::shared_ptr<const Newcomer> note_newcomer(const std::shared_ptr<Stream>& stream,
                                                const std::shared_ptr<Watch>& watch) const;
  void end_unknown(const std::shared_ptr<Stream>& stream, std::string_view head, const Watch& watch,
                   bool admitted, bool encrypted) const;
  asio::awaitable<void> refuse(std::shared_ptr<Stream> stream, const WireProtocol* encoding,
                               Failure reason) const;
  asio::awaitable<void> refuse_tls(std::shared_ptr<Stream> stream) const;

  const SessionContext& context;
  const Protocols protocols;
  const ProtocolSet enabled;
  /// Of a daemon that asks who its clients are: only there is it sure that a client speaks first.
  const std::shared_ptr<Watched> watched = std::make_shared<Watched>();
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

bool Reception::make_room(const asio::ip::address& from) {
  return rules_->watched->newcomers.make_room(from);
}

bool Reception::make_room() { return rules_->watched->newcomers.make_room(); }

bool Reception::Rules::wants_more(std::string_view head, bool admitted, bool encrypted) const {
  if (decrypts(head, encrypted)) return client_hello(head) == ClientHello::part;
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

std::shared_ptr<const Newcomer> Reception::Rules::note_newcomer(
    const std::shared_ptr<Stream>& stream, const std::shared_ptr<Watch>& watch) const {
  const std::shared_ptr<Newcomers> all(watched, &watched->newcomers);
  const asio::ip::address from = stream->address();
  const std::weak_ptr<Stream> weak = stream;
  const auto end = [weak, watch](bool wants_place) {
    const auto open = weak.lock();
    if (!open) return;
    watch->late = true;
    watch->may_stay = !wants_place;
    if (wants_place) open->give_place_free();
    open->cancel();
  };
  const auto newcomer =
      std::make_shared<const Newcomer>(all, from, all->add(from, Clock::now(), end));
  look_soon(stream->executor(), watched);
  return newcomer;
}

asio::awaitable<void> Reception::Rules::recognise(std::shared_ptr<const Rules> self,
                                                  std::shared_ptr<Stream> stream,
                                                  Result<void> admitted, bool encrypted) const {
  const auto watch = std::make_shared<Watch>();
  asio::steady_timer deadline(stream->executor(), context.hello_deadline);
  deadline.async_wait([stream, watch](const ErrorCode& cancelled) {
    if (cancelled || watch->over) return;
    watch->late = true;
    stream->cancel();
  });
  std::shared_ptr<const Newcomer> newcomer;
  if (context.decrypt && admitted) newcomer = note_newcomer(stream, watch);
  std::array<char, 512> buffer;
  std::string head;
  ErrorCode failed;
  bool more = true;
  while (more && !failed && !watch->late) {
    const std::size_t n = co_await stream->read_next(asio::buffer(buffer), failed);
    head.append(buffer.data(), n);
    more = failed || wants_more(head, admitted.has_value(), encrypted);
  }
  watch->over = true;
  deadline.cancel();
  const WireProtocol* const found = protocols.recognise(head).protocol;
  // Only a request over HTTP says later who sends it.
  const bool is_http = !more && encrypted && found && found->protocol == Protocol::http;
  if (newcomer && is_http) stream->keep(std::move(newcomer));
  newcomer.reset();
  if (more) co_return end_unknown(stream, head, *watch, admitted.has_value(), encrypted);
  if (decrypts(head, encrypted)) {
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

/// Notes why a connection ends that has not said enough, or keeps it.
void Reception::Rules::end_unknown(const std::shared_ptr<Stream>& stream, std::string_view head,
                                   const Watch& watch, bool admitted, bool encrypted) const {
  if (!head.empty() && decrypts(head, encrypted)) {
    context.metrics.authenticated(std::nullopt);
    context.metrics.connection_closed(Protocol::unknown, "tls");
    return log_refused(
        "", stream->peer(),
        watch.late ? failure(Code::timed_out, "the client did not end the TLS handshake in time")
                   : failure(Code::unavailable,
                             "the client closed the connection during the TLS handshake"));
  }
  if (const WireProtocol* const found = protocols.recognise(head).protocol) {
    context.metrics.connection_opened(found->protocol);
    return context.metrics.connection_closed(found->protocol,
                                             watch.late ? "hello_deadline" : "peer");
  }
  const bool silent = watch.late && watch.may_stay && head.empty() && admitted;
  if (silent && protocols.keep_silent(stream, enabled)) return;
  context.metrics.connection_closed(Protocol::unknown, "nothing_said");
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
