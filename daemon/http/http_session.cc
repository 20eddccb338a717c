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
#include "daemon/http/forwarding.h"
#include "daemon/http/http_wire.h"
#include "daemon/http/routes.h"
#include "daemon/metrics/metrics.h"
#include "daemon/net/shared_budget.h"
#include "protocol/format.h"

namespace c10dd::daemon {
namespace {

using asio::experimental::awaitable_operators::operator||;
/// Bytes of further requests that are read while another daemon makes a reply.
constexpr std::size_t kPipelined = 64 * 1024;

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

/// Does what a request about endpoints needs.
asio::awaitable<void> serve_endpoints(Operations& operations, const HttpRequest& request,
                                      ServerFacts& facts) {
  const Result<std::string> job = job_of_endpoints(request);
  switch (need_of(request, facts)) {
    case Need::endpoints:
      facts.endpoints = operations.endpoints_of(*job);
      break;
    case Need::lease: {
      const Result<LeaseEndpoint> lease = lease_of(request);
      facts.leased = co_await operations.lease_endpoint(*job, *lease);
      break;
    }
    default: {
      const Result<std::string> name = endpoint_to_release(request);
      facts.released = co_await operations.release_endpoint(*job, *name);
    }
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
                                                  bool local) {
  auto first =
      co_await (connection.operations.forward(request, to, local) || client_gone(connection));
  if (first.index() == 1) co_return std::nullopt;
  co_return std::get<0>(std::move(first));
}

/// Fetches or does what the route needs on this daemon.
asio::awaitable<void> prepare(Operations& operations, const HttpRequest& request, Need need,
                              ServerFacts& facts) {
  switch (need) {
    case Need::metrics:
      facts.metrics = co_await operations.metrics_text();
      break;
    case Need::daemons:
      facts.daemons = co_await operations.daemons();
      break;
    case Need::jobs:
      facts.jobs = co_await operations.owners();
      facts.jobs.served = co_await operations.job_reports();
      break;
    case Need::move: {
      const Result<std::string> job = job_of_move(request);
      const Result<std::string> to = target_of(request);
      facts.moved = co_await operations.move_job(*job, *to);
      break;
    }
    case Need::job: {
      facts.page.job = *job_of(request);
      facts.page.runs = co_await operations.runs_of(facts.page.job);
      facts.page.stored = operations.is_stored(facts.page.job);
      facts.page.trainers = operations.address_for_trainers(facts.page.job);
      break;
    }
    case Need::end: {
      const Result<RunName> name = run_of(request);
      facts.ended = operations.end_run(name->job, name->run);
      break;
    }
    case Need::checkpoint: {
      const Result<std::string> path = checkpoint_path(request);
      facts.checkpoint = co_await operations.checkpoint(*path);
      break;
    }
    case Need::removal: {
      const Result<std::string> job = job_of(request);
      facts.removed = co_await operations.remove_job(*job);
      break;
    }
    case Need::endpoints:
    case Need::lease:
    case Need::release:
      co_await serve_endpoints(operations, request, facts);
      break;
    case Need::nothing:
      break;
  }
}

/// Obtains the data that the route needs, here or from the daemons that serve the job, then lets
/// the route make the reply. Returns nothing if the client has gone.
asio::awaitable<std::optional<HttpReply>> make_reply(Connection& connection,
                                                     const HttpRequest& request) {
  Operations& operations = connection.operations;
  ServerFacts facts = operations.facts();
  const bool of_fleet = !request.secret.empty() && operations.is_fleet_secret(request.secret);
  facts.local = connection.stream.is_local() || of_fleet;
  facts.host_known =
      of_fleet || !request.has_host || replies_to(connection.context.options, request.host);
  const Need need = need_of(request, facts);
  const Forward forward = [&](const Peer& to) {
    return pass_on(connection, request, to, facts.local);
  };
  ForwardedReply others = co_await reply_of_others(operations, request, need, facts, forward);
  if (others.client_gone) co_return std::nullopt;
  if (others.reply) co_return std::move(others.reply);
  co_await prepare(operations, request, need, facts);
  co_return handle(request, facts);
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
                                 Operations& operations, HttpPatience patience) {
  context.metrics.connection_opened(Protocol::http);
  std::string_view reason = "internal";
  const auto reach = std::make_shared<Reach>(*stream);
  try {
    Connection connection{*stream,
                          context,
                          operations,
                          patience,
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
  const int status = reason.code == Code::quota_exceeded ? 503 : 400;
  return encode(http_error(status, reason.code, reason.detail), false, false);
}

}  // namespace

WireProtocol http_protocol(const SessionContext& context, Operations& operations,
                           const HttpPatience& patience) {
  WireProtocol entry;
  entry.protocol = Protocol::http;
  entry.recognise = recognise_http;
  entry.serve = [&context, &operations, patience](std::shared_ptr<Stream> stream) {
    const asio::any_io_executor loop = stream->executor();
    asio::co_spawn(loop, serve_http(std::move(stream), context, operations, patience),
                   asio::detached);
  };
  entry.refusal = http_refusal;
  return entry;
}

}  // namespace c10dd::daemon
