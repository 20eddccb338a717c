// SPDX-License-Identifier: Apache-2.0
// Serves one HTTP connection: reads a request, sends its reply, reads the next. Every wait for the
// client has a deadline, so that a silent client does not hold its connection forever.
#include "daemon/http/http_session.h"

#include <array>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <exception>
#include <optional>

#include "daemon/config/option_values.h"
#include "daemon/http/http_wire.h"
#include "daemon/http/route_table.h"
#include "daemon/metrics/metrics.h"
#include "daemon/net/refusal_log.h"
#include "daemon/net/shared_budget.h"
#include "protocol/format.h"

namespace c10dd::daemon {
namespace {

using asio::experimental::awaitable_operators::operator||;
/// Bytes of further requests that are read while another daemon makes a reply.
constexpr std::size_t kPipelined = 64 * 1024;
constexpr int kUnauthorized = 401;

using SteadyTime = std::chrono::steady_clock::time_point;

/// Lets the budget close one connection: cancels the connection's stream when the budget asks for
/// that. May live longer than the connection.
struct Reach final : BudgetSink {
  explicit Reach(Stream& of) : stream(&of), executor(of.executor()) {}

  asio::any_io_executor budget_executor() override { return executor; }
  void read_on() override {}  // HTTP requests are small and never wait for the budget
  void close_for_room(const Failure&) override {
    closed = true;
    if (stream) stream->cancel();
  }

  Stream* stream;  ///< null after the end of the connection
  asio::any_io_executor executor;
  bool closed = false;  ///< by the budget
};

struct Connection {
  Stream& stream;
  const SessionContext& context;
  Operations& operations;
  const HttpPatience patience;
  const bool metrics_only;
  asio::steady_timer timer;
  std::string unread;  ///< received, not yet parsed
  BudgetShare share{context.budget};
};

enum class Wait { done, ended, overdue };

asio::awaitable<Wait> receive(Connection& connection, SteadyTime deadline) {
  std::array<char, 16 * 1024> bytes;
  ErrorCode failed;
  connection.timer.expires_at(deadline);
  const auto first = co_await (connection.stream.read_some(asio::buffer(bytes), failed) ||
                               connection.timer.async_wait(asio::use_awaitable));
  if (first.index() == 1) co_return Wait::overdue;
  if (failed || std::get<0>(first) == 0) co_return Wait::ended;
  connection.unread.append(bytes.data(), std::get<0>(first));
  co_return Wait::done;
}

asio::awaitable<Wait> send(Connection& connection, std::string_view bytes) {
  ErrorCode failed;
  connection.timer.expires_after(connection.patience.write);
  const auto first =
      co_await (connection.stream.write_all(asio::buffer(bytes.data(), bytes.size()), failed) ||
                connection.timer.async_wait(asio::use_awaitable));
  if (first.index() == 1) co_return Wait::overdue;
  co_return failed ? Wait::ended : Wait::done;
}

asio::awaitable<void> refuse(Connection& connection, const HttpReply& reply) {
  connection.context.metrics.protocol_error(Protocol::http, reply.code);
  const std::string bytes = encode(reply, false, false);
  const Wait sent = co_await send(connection, bytes);
  if (sent == Wait::done) co_await connection.stream.finish();
}

/// Reads until the reader has a request or a refusal. If the connection has to end, returns the
/// reason; otherwise returns an empty text.
asio::awaitable<std::string_view> read_request(Connection& connection, HttpReader& reader) {
  const SteadyTime begin = std::chrono::steady_clock::now();
  std::optional<SteadyTime> deadline;
  while (true) {
    connection.unread.erase(0, reader.put(connection.unread));
    if (reader.request() || reader.refusal()) co_return std::string_view();
    if (reader.begun() && !deadline) {
      deadline = std::chrono::steady_clock::now() + connection.patience.request;
    }
    if (reader.take_expects_continue()) co_await send(connection, kHttpContinue);
    const SteadyTime until = deadline.value_or(begin + connection.patience.idle);
    const Wait got = co_await receive(connection, until);
    if (got == Wait::ended) co_return "peer";
    if (got != Wait::overdue) continue;
    if (!reader.begun()) co_return "idle";
    const auto waited =
        std::chrono::duration_cast<std::chrono::seconds>(connection.patience.request);
    const HttpReply reply = http_error(
        408, Code::timed_out, format("the request is incomplete after {} s", waited.count()));
    co_await refuse(connection, reply);
    co_return name_of(reply.code);
  }
}

/// Returns when the client has closed its connection. Keeps what it sends meanwhile.
asio::awaitable<void> client_gone(Connection& connection) {
  std::array<char, 4 * 1024> bytes;
  while (connection.unread.size() < kPipelined) {
    ErrorCode failed;
    const std::size_t n = co_await connection.stream.read_some(asio::buffer(bytes), failed);
    if (failed || n == 0) co_return;
    connection.unread.append(bytes.data(), n);
  }
  connection.timer.expires_at(SteadyTime::max());
  co_await connection.timer.async_wait(asio::use_awaitable);
}

/// Passes a request on to another daemon. Stops, and returns nothing, when the client has gone.
asio::awaitable<std::optional<HttpReply>> pass_on(Connection& connection,
                                                  const HttpRequest& request, const Peer& to,
                                                  bool trusted) {
  auto first =
      co_await (connection.operations.forward(request, to, trusted) || client_gone(connection));
  if (first.index() == 1) co_return std::nullopt;
  co_return std::get<0>(std::move(first));
}

/// Makes the reply, here or by the daemons that serve the job. Returns nothing if the client has
/// gone.
asio::awaitable<std::optional<HttpReply>> make_reply(Connection& connection,
                                                     const HttpRequest& request) {
  Operations& operations = connection.operations;
  const bool of_fleet = !request.secret.empty() && operations.is_fleet_secret(request.secret);
  RequestSource source{.local = connection.stream.is_local() || of_fleet,
                       .metrics_only = connection.metrics_only,
                       .host_known = of_fleet || connection.metrics_only || !request.has_host ||
                                     replies_to(connection.context.options, request.host)};
  // The daemon that has passed a request on has asked already.
  if (connection.context.roles_of && !of_fleet && !connection.metrics_only) {
    source.roles = connection.context.roles_of(request.token, connection.stream);
  }
  // Who has said who it is is no newcomer any more.
  if (of_fleet || (source.roles && *source.roles)) connection.stream.keep(nullptr);
  const Forward forward = [&](const Peer& to) {
    const bool trusted =
        source.local || source.roles.has_value() || connection.context.serves_plain;
    return pass_on(connection, request, to, trusted);
  };
  auto reply = co_await reply_to(operations, request, source, forward);
  // Whoever says not who he is, and asks for what is open to all, is not refused.
  if (reply && reply->status == kUnauthorized && source.roles && !*source.roles) {
    connection.context.metrics.authenticated(source.roles->error().code);
    log_refused(name_of(Protocol::http), connection.stream.peer(), source.roles->error());
  }
  co_return reply;
}

/// Serves requests until the connection has to end. Returns the reason as a metric label.
asio::awaitable<std::string_view> converse(Connection& connection) {
  while (true) {
    HttpReader reader;
    const std::string_view over = co_await read_request(connection, reader);
    if (!over.empty()) co_return over;
    if (const auto& refusal = reader.refusal()) {
      co_await refuse(connection, *refusal);
      co_return name_of(refusal->code);
    }
    const HttpRequest& request = *reader.request();
    const std::optional<HttpReply> reply = co_await make_reply(connection, request);
    if (!reply) co_return "peer";
    const bool keep = request.keep_alive && !connection.context.draining;
    const std::string bytes = encode(*reply, keep, request.method == "HEAD");
    connection.share.set_replies(bytes.size());
    const Wait sent = co_await send(connection, bytes);
    connection.share.set_replies(0);
    if (sent == Wait::overdue) co_return "slow_consumer";
    if (sent == Wait::ended) co_return "peer";
    if (!keep) co_return request.keep_alive ? "drain" : "peer";
  }
}

asio::awaitable<void> serve_http(std::shared_ptr<Stream> stream, const SessionContext& context,
                                 Operations& operations, HttpPatience patience, bool metrics_only) {
  context.metrics.connection_opened(Protocol::http);
  std::string_view reason = "internal";
  const auto reach = std::make_shared<Reach>(*stream);
  try {
    Connection connection{*stream,
                          context,
                          operations,
                          patience,
                          metrics_only,
                          asio::steady_timer(stream->executor()),
                          stream->take_head()};
    connection.share.belong_to(reach);
    reason = co_await converse(connection);
    if (reach->closed) reason = name_of(Code::quota_exceeded);
  } catch (const std::exception&) {
    // An exception, for example out of memory, ends only this connection, with the reason
    // "internal".
  }
  reach->stream = nullptr;
  stream->close();
  context.metrics.connection_closed(Protocol::http, reason);
}

Match recognise_http(std::string_view head) {
  return head.front() >= 'A' && head.front() <= 'Z' ? Match::yes : Match::no;
}

std::string http_refusal(const Failure& reason) {
  const bool full = reason.code == Code::quota_exceeded;
  const int status = full ? 503 : reason.code == Code::unauthenticated ? 401 : 400;
  return encode(http_error(status, reason.code, reason.detail), false, false);
}

WireProtocol entry_of(const SessionContext& context, Operations& operations,
                      const HttpPatience& patience, bool metrics_only) {
  WireProtocol entry;
  entry.protocol = Protocol::http;
  entry.recognise = recognise_http;
  entry.serve = [&context, &operations, patience, metrics_only](std::shared_ptr<Stream> stream) {
    const asio::any_io_executor loop = stream->executor();
    asio::co_spawn(loop, serve_http(std::move(stream), context, operations, patience, metrics_only),
                   asio::detached);
  };
  entry.refusal = http_refusal;
  return entry;
}

}  // namespace

WireProtocol http_protocol(const SessionContext& context, Operations& operations,
                           const HttpPatience& patience) {
  return entry_of(context, operations, patience, false);
}

WireProtocol metrics_protocol(const SessionContext& context, Operations& operations,
                              const HttpPatience& patience) {
  return entry_of(context, operations, patience, true);
}

}  // namespace c10dd::daemon
