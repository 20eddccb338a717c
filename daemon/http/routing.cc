// SPDX-License-Identifier: Apache-2.0
// Finds the route of a request in the table, and lets those reply who may.
#include <algorithm>
#include <utility>

#include "daemon/http/route_table.h"
#include "daemon/shard/caused_log.h"
#include "protocol/format.h"
#include "protocol/limits.h"
#include "protocol/names.h"
#include "protocol/percent.h"
#include "protocol/utf8.h"

namespace c10dd::daemon {
namespace {

namespace asio = boost::asio;

/// Returns the path of a target. The target has origin form or, if a proxy sent it, absolute form.
std::string_view path_of(std::string_view target) {
  target = target.substr(0, target.find_first_of("?#"));
  if (target.starts_with("http://")) {
    const std::size_t slash = target.find('/', std::string_view("http://").size());
    return slash == std::string_view::npos ? "/" : target.substr(slash);
  }
  return target;
}

bool fits(const Route& route, const HttpRequest& request) {
  const std::string_view method = route.method;
  return request.method == method || (method == "GET" && request.method == "HEAD");
}

/// Returns the parts of the path that stand for {...} in the pattern; nothing if it is of another
/// form. A part ends before the first occurrence of what follows it in the pattern.
std::optional<std::vector<std::string_view>> parts_of(std::string_view path,
                                                      std::string_view pattern) {
  std::vector<std::string_view> parts;
  std::size_t begin = pattern.find('{');
  const std::string_view prefix = pattern.substr(0, begin);
  if (!path.starts_with(prefix)) return std::nullopt;
  path.remove_prefix(prefix.size());
  while (begin != pattern.npos) {
    pattern.remove_prefix(pattern.find('}', begin) + 1);
    begin = pattern.find('{');
    const std::string_view next = pattern.substr(0, begin);
    const std::size_t end = next.empty() ? path.size() : path.find(next);
    if (end == path.npos || (next.empty() && path.empty())) return std::nullopt;
    parts.push_back(path.substr(0, end));
    path.remove_prefix(end + next.size());
  }
  if (!path.empty()) return std::nullopt;
  return parts;
}

/// Returns the route of the path that has the method or, if there is none, a route of the path.
const Route* find_route(const HttpRequest& request) {
  const std::string_view path = path_of(request.target);
  const Route* found = nullptr;
  for (const Route& route : all_routes()) {
    const bool better = found == nullptr || fits(route, request) || !fits(*found, request);
    if (better && parts_of(path, route.pattern)) found = &route;
  }
  return found;
}

/// Returns the methods of all routes of a pattern, as the field Allow has them.
std::string methods_of(const Route& of) {
  std::string methods;
  for (const Route& route : all_routes()) {
    if (route.pattern != of.pattern) continue;
    methods += methods.empty() ? "" : ", ";
    methods += route.method == std::string_view("GET") ? "GET, HEAD" : route.method;
  }
  return methods;
}

/// Returns the names in the path of a request, percent-decoded.
Result<std::vector<std::string>> names_of(const HttpRequest& request, const Route& route) {
  std::vector<std::string> names;
  const auto parts = parts_of(path_of(request.target), route.pattern);
  for (const std::string_view part : *parts) {
    std::optional<std::string> name = percent_decoded(part);
    if (!name) {
      return failure(Code::invalid_argument,
                     "job: name is not percent-encoded; use /v1/jobs/NAME, with %25 for %");
    }
    names.push_back(std::move(*name));
  }
  return names;
}

/// Returns why the client may not use a route; nothing if he may. `names`: the values of {...}.
std::optional<HttpReply> stranger(const HttpRequest& request, const RequestSource& source,
                                  const Route& route, const std::vector<std::string>& names) {
  if (!source.roles) {
    if (route.who == Route::Who::anybody || source.local) return std::nullopt;
    return http_error(403, Code::permission_denied,
                      format("only clients on the daemon's machine may {}", route.act));
  }
  if (route.role == core::Role::none) return std::nullopt;
  if (!*source.roles) {
    HttpReply refused = http_error(source.roles->error());
    refused.bad_token = !request.token.empty();
    return refused;
  }
  const core::JobRoles& roles = **source.roles;
  const bool of_job = !names.empty();
  const core::Role is = of_job         ? roles.in(names.front())
                        : route.in_any ? roles.anywhere()
                                       : roles.everywhere();
  if (is >= route.role) return std::nullopt;
  const std::string where =
      of_job ? "in job \"" + printable_name(names.front()) + "\"" : "in all jobs";
  return http_error(403, Code::permission_denied,
                    format("this needs the role {} {}; ask for a token that has it",
                           core::name_of(route.role), where));
}

/// Returns why a request is refused before anybody asks who its client is; nothing if it is not.
std::optional<HttpReply> refusal_of(const HttpRequest& request, const RequestSource& source,
                                    const Route* route) {
  if (!source.host_known) {
    return http_error(403, Code::permission_denied,
                      format("unknown host \"{}\" for a listener on loopback; use localhost or "
                             "127.0.0.1, or allow the name with --http-hosts",
                             printable(request.host, 128)));
  }
  if (source.metrics_only && (route == nullptr || !route->for_metrics)) {
    return http_error(404, Code::not_found,
                      "this address serves only /livez, /readyz and /metrics; use the address of "
                      "--listen for other routes");
  }
  if (route == nullptr) {
    return http_error(
        404, Code::not_found,
        format("unknown route {}; GET / lists all routes", request.target.substr(0, 128)));
  }
  if (!fits(*route, request)) {
    HttpReply refused =
        http_error(405, Code::unsupported,
                   format("{} is not allowed on {}; use {}", request.method.substr(0, 32),
                          route->pattern, methods_of(*route)));
    refused.allow = methods_of(*route);
    return refused;
  }
  return std::nullopt;
}

RouteCall call_of(Operations& operations, const HttpRequest& request,
                  std::vector<std::string> names) {
  return {.operations = operations, .request = request, .names = std::move(names)};
}

/// Logs what an admin has done, here or at another daemon.
void log_act(const RouteCall& call, const Route& route, int status) {
  if (call.roles == nullptr || route.role != core::Role::admin) return;
  log_caused(call.roles->principal(), LogLevel::info,
             "event=acted principal={} method={} path={} status={}",
             Sentence{call.roles->principal()}, call.request.method,
             printable(std::string(path_of(call.request.target)), 256), status);
}

}  // namespace

asio::awaitable<std::optional<HttpReply>> reply_to(Operations& operations,
                                                   const HttpRequest& request,
                                                   const RequestSource& source,
                                                   const Forward& forward) {
  const Route* const route = find_route(request);
  if (auto refusal = refusal_of(request, source, route)) co_return std::move(refusal);
  Result<std::vector<std::string>> names = names_of(request, *route);
  if (!names) co_return http_error(names.error());
  if (auto refusal = stranger(request, source, *route, *names)) co_return std::move(refusal);
  if (route->check != nullptr) {
    if (const Result<void> good = route->check(request); !good) co_return http_error(good.error());
  }
  RouteCall call = call_of(operations, request, std::move(*names));
  call.metrics_only = source.metrics_only;
  if (source.roles && *source.roles) call.roles = &**source.roles;
  if (route->fleet != FleetReply::here) {
    ForwardedReply others =
        co_await reply_of_others(operations, request, call.job(), route->fleet, forward);
    if (others.client_gone) co_return std::nullopt;
    if (others.reply) {
      log_act(call, *route, others.reply->status);
      co_return std::move(others.reply);
    }
    call.elsewhere = std::move(others.elsewhere);
  }
  HttpReply reply = co_await route->reply(call);
  if (reply.status == 404 && !call.names.empty()) {
    // There is no such job, and there cannot be one.
    if (const Result<void> good = check_name("job", call.job()); !good) {
      reply = http_error(good.error());
    }
  }
  log_act(call, *route, reply.status);
  co_return reply;
}

std::string origin_of(const HttpRequest& request) {
  const std::size_t query = request.target.find('?');
  const std::string path(path_of(request.target));
  return query == std::string::npos ? path : path + request.target.substr(query);
}

}  // namespace c10dd::daemon
