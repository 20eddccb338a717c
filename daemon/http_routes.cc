// SPDX-License-Identifier: Apache-2.0
// The table of routes. All are read with GET or HEAD; a query is ignored.
#include "daemon/http_routes.h"

#include <algorithm>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>
#include <iterator>

#include "protocol/ops.h"

namespace c10dd::daemon {
namespace {

constexpr const char* kText = "text/plain; charset=utf-8";
constexpr const char* kAllow = "GET, HEAD";

HttpReply index_page(const ServerFacts& facts);

HttpReply livez(const ServerFacts&) { return {200, kText, "ok\n"}; }

HttpReply readyz(const ServerFacts& facts) {
  const bool ready = facts.not_ready.empty();
  return {ready ? 200 : 503, kText,
          (ready ? "ready" : "not ready: " + facts.not_ready) + "\nengine: " + facts.engine +
              "\ndurability: " + facts.durability + "\n"};
}

HttpReply metrics(const ServerFacts& facts) {
  return {200, "text/plain; version=0.0.4; charset=utf-8", facts.metrics};
}

HttpReply version(const ServerFacts& facts) {
  const boost::json::value body = {{"version", facts.version},
                                   {"protocol_version", kProtocolVersion},
                                   {"engine", facts.engine},
                                   {"durability", facts.durability},
                                   {"uptime_seconds", facts.uptime.count()}};
  return {200, "application/json", boost::json::serialize(body) + "\n"};
}

struct Route {
  std::string_view path;
  std::string_view sentence;
  HttpReply (*answer)(const ServerFacts&);
};

constexpr Route kRoutes[] = {
    {"/", "this list", index_page},
    {"/livez", "200 while the process answers", livez},
    {"/readyz", "200 when requests are served, else 503 and why not", readyz},
    {"/metrics", "for Prometheus, text format 0.0.4", metrics},
    {"/v1/version", "what is running, JSON", version},
};

HttpReply index_page(const ServerFacts& facts) {
  std::string text = "c10dd " + facts.version + "\n\n";
  for (const Route& route : kRoutes) {
    text.append(route.path).append(16 - route.path.size(), ' ').append(route.sentence) += '\n';
  }
  return {200, kText, text};
}

/// The path of a target in origin form or, from a proxy, in absolute form.
std::string_view path_of(std::string_view target) {
  target = target.substr(0, target.find_first_of("?#"));
  if (target.starts_with("http://")) {
    const std::size_t slash = target.find('/', std::string_view("http://").size());
    return slash == std::string_view::npos ? "/" : target.substr(slash);
  }
  return target;
}

const Route* find_route(const HttpRequest& request) {
  const std::string_view path = path_of(request.target);
  const auto found = std::find_if(std::begin(kRoutes), std::end(kRoutes),
                                  [&](const Route& route) { return route.path == path; });
  return found == std::end(kRoutes) ? nullptr : found;
}

bool reads(const HttpRequest& request) {
  return request.method == "GET" || request.method == "HEAD";
}

}  // namespace

bool wants_metrics(const HttpRequest& request) {
  const Route* route = find_route(request);
  return route && route->answer == metrics && reads(request);
}

HttpReply handle(const HttpRequest& request, const ServerFacts& facts) {
  const Route* route = find_route(request);
  if (!route) {
    return http_error(
        404, Code::not_found,
        "no route " + request.target.substr(0, 128) + "; look at / for those there are");
  }
  if (!reads(request)) {
    HttpReply refused = http_error(405, Code::unsupported,
                                   request.method.substr(0, 32) + " on " +
                                       std::string(route->path) + ": allowed are " + kAllow);
    refused.allow = kAllow;
    return refused;
  }
  return route->answer(facts);
}

}  // namespace c10dd::daemon
