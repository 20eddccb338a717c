// SPDX-License-Identifier: Apache-2.0
// The table of routes. The query of a target is ignored. A route that changes something serves only
// clients on this machine. It accepts only a POST of JSON or a DELETE, because a web page from a
// foreign site cannot make a browser send these requests.
#include "daemon/http/routes.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <charconv>
#include <iterator>

#include "protocol/address.h"
#include "protocol/format.h"
#include "protocol/json_text.h"
#include "protocol/limits.h"
#include "protocol/ops.h"
#include "protocol/percent.h"
#include "protocol/utf8.h"

namespace c10dd::daemon {
namespace {

constexpr const char* kText = "text/plain; charset=utf-8";
constexpr const char* kJson = "application/json";

HttpReply index_page(const HttpRequest& request, const ServerFacts& facts);

HttpReply livez(const HttpRequest&, const ServerFacts&) { return {200, kText, "ok\n"}; }

HttpReply readyz(const HttpRequest&, const ServerFacts& facts) {
  const bool ready = facts.not_ready.empty();
  return {ready ? 200 : 503, kText,
          (ready ? "ready" : "not ready: " + facts.not_ready) + "\nengine: " + facts.engine +
              "\ndurability: " + facts.durability + "\n" +
              (facts.note.empty() ? "" : "note: " + facts.note + "\n")};
}

HttpReply metrics(const HttpRequest&, const ServerFacts& facts) {
  return {200, "text/plain; version=0.0.4; charset=utf-8", facts.metrics};
}

HttpReply version(const HttpRequest&, const ServerFacts& facts) {
  const boost::json::value body = {{"version", facts.version},
                                   {"protocol_version", kProtocolVersion},
                                   {"engine", facts.engine},
                                   {"durability", facts.durability},
                                   {"uptime_seconds", facts.uptime.count()}};
  return {200, kJson, json::text_of(body) + "\n"};
}

HttpReply daemons(const HttpRequest& request, const ServerFacts& facts) {
  if (request.accept.starts_with("text/")) return {200, kText, text_of(facts.daemons)};
  return {200, kJson, json_of(facts.daemons)};
}

HttpReply jobs(const HttpRequest&, const ServerFacts& facts) {
  return {200, kJson, json_of(facts.jobs)};
}

/// Says how the ranks of a job find it that has none yet.
std::string how_to_begin(const std::string& job, const std::string& address) {
  const Result<AddressParts> parts = split_address(address);
  if (!parts || !parts->port) {
    return format("PyTorch trainers need their own port, see POST /v1/jobs/{}/endpoints", job);
  }
  return format(
      "if its ranks are PyTorch trainers, start them with MASTER_ADDR={} MASTER_PORT={} "
      "TORCHELASTIC_USE_AGENT_STORE=True TORCHELASTIC_RESTART_COUNT=0",
      parts->host, *parts->port);
}

HttpReply job(const HttpRequest& request, const ServerFacts& facts) {
  const Result<std::string> name = job_of(request);
  if (!name) return http_error(400, name.error().code, name.error().detail);
  if (facts.page.runs.empty() && facts.page.elsewhere.empty()) {
    if (facts.page.stored) {
      Failure why = failure(Code::unavailable,
                            "job \"{}\" is being moved or claimed by another daemon; try again",
                            printable(*name, limits::kNameBytes));
      why.retry_after = std::chrono::seconds(1);
      return http_error(why);
    }
    const std::string shown = printable_name(*name);
    const std::string begin = how_to_begin(shown, facts.page.trainers);
    if (facts.page.trainers.empty()) {
      return http_error(
          404, Code::not_found,
          format("job \"{}\" has no loaded run; GET /v1/jobs lists the loaded jobs; {}", shown,
                 begin));
    }
    const std::string note = format("job \"{}\" waits for its first rank; {}", shown, begin);
    if (request.accept.starts_with("text/")) return {200, kText, note + "\n"};
    const boost::json::value body = {
        {"job", shown}, {"runs", boost::json::array()}, {"note", note}};
    return {200, kJson, json::text_of(body) + "\n"};
  }
  if (request.accept.starts_with("text/")) return {200, kText, text_of(facts.page)};
  return {200, kJson, json_of(facts.page)};
}

HttpReply checkpoint(const HttpRequest& request, const ServerFacts& facts) {
  if (!facts.local) {
    return http_error(403, Code::permission_denied,
                      "only clients on the daemon's machine may write a checkpoint");
  }
  const Result<std::string> path = checkpoint_path(request);
  const Result<void> done = path ? facts.checkpoint : path.error();
  if (!done) return http_error(done.error());
  const boost::json::value body = {{"path", *path}};
  return {200, kJson, json::text_of(body) + "\n"};
}

HttpReply remove_job(const HttpRequest& request, const ServerFacts& facts) {
  if (!facts.local) {
    return http_error(403, Code::permission_denied,
                      "only clients on the daemon's machine may remove a job");
  }
  const Result<std::string> job = job_of(request);
  const Result<void> done = job ? facts.removed : job.error();
  if (!done) {
    const Failure& why = done.error();
    const bool in_use = why.code == Code::unavailable && facts.not_ready.empty();
    return http_error(in_use ? 409 : describe(why.code).http_status, why.code, why.detail);
  }
  const boost::json::value body = {{"removed", printable(*job, limits::kNameBytes)}};
  return {200, kJson, json::text_of(body) + "\n"};
}

HttpReply end_run(const HttpRequest& request, const ServerFacts& facts) {
  if (!facts.local) {
    return http_error(403, Code::permission_denied,
                      "only clients on the daemon's machine may end a run");
  }
  const Result<RunName> name = run_of(request);
  const Result<void> done = name ? facts.ended : name.error();
  if (!done) return http_error(done.error());
  const boost::json::value body = {{"ended", printable(name->run, limits::kNameBytes)}};
  return {200, kJson, json::text_of(body) + "\n"};
}

HttpReply endpoints(const HttpRequest& request, const ServerFacts& facts) {
  const Result<std::string> job = job_of_endpoints(request);
  if (!job) return http_error(job.error());
  if (!facts.endpoints) return http_error(facts.endpoints.error());
  return {200, kJson, json_of(*job, *facts.endpoints)};
}

HttpReply lease_endpoint(const HttpRequest& request, const ServerFacts& facts) {
  if (!facts.local) {
    return http_error(403, Code::permission_denied,
                      "only clients on the daemon's machine may lease an endpoint");
  }
  if (const auto job = job_of_endpoints(request); !job) return http_error(job.error());
  if (const auto lease = lease_of(request); !lease) return http_error(lease.error());
  if (!facts.leased) return http_error(facts.leased.error());
  if (!facts.leased->problem.empty()) {
    return http_error(
        failure(Code::unavailable, "endpoint \"{}\" is leased, but cannot be reached: {}",
                printable(facts.leased->endpoint.name, limits::kNameBytes), facts.leased->problem));
  }
  return {200, kJson, json_of(*facts.leased)};
}

HttpReply release_endpoint(const HttpRequest& request, const ServerFacts& facts) {
  if (!facts.local) {
    return http_error(403, Code::permission_denied,
                      "only clients on the daemon's machine may release an endpoint");
  }
  if (const auto job = job_of_endpoints(request); !job) return http_error(job.error());
  const Result<std::string> name = endpoint_to_release(request);
  const Result<void> done = name ? facts.released : name.error();
  if (!done) return http_error(done.error());
  const boost::json::value body = {{"released", printable(*name, limits::kNameBytes)}};
  return {200, kJson, json::text_of(body) + "\n"};
}

HttpReply move(const HttpRequest& request, const ServerFacts& facts) {
  if (!facts.local) {
    return http_error(403, Code::permission_denied,
                      "only clients on a daemon's machine may move a job");
  }
  if (const auto job = job_of_move(request); !job) return http_error(job.error());
  if (const auto to = target_of(request); !to) return http_error(to.error());
  if (facts.moved) return {200, kJson, json_of(*facts.moved, facts.moved_elsewhere)};
  const Failure& why = facts.moved.error();
  // Another try helps only if the failure says when.
  const bool conflict = why.code == Code::unavailable && why.retry_after == Duration::zero();
  return conflict ? http_error(409, why.code, why.detail) : http_error(why);
}

struct Route {
  std::string_view path;
  std::string_view sentence;
  HttpReply (*respond)(const HttpRequest&, const ServerFacts&);
  Need need = Need::nothing;
  const char* methods = "GET, HEAD";
  std::string_view rest = {};    ///< placeholder for the variable part of the path; empty if none
  std::string_view inside = {};  ///< what the variable part must contain
  bool ends = false;             ///< the variable part must end with the first `inside`
};

constexpr std::string_view kJobs = "/v1/jobs/";
constexpr std::string_view kRuns = "/runs/";
constexpr std::string_view kEndpoints = "/endpoints";
constexpr std::string_view kEndpoint = "/endpoints/";
constexpr std::string_view kMove = "/move";

constexpr Route kRoutes[] = {
    {"/", "this list", index_page},
    {"/livez", "200 while the daemon runs", livez},
    {"/readyz", "200 if requests are served, otherwise 503 with the reason", readyz},
    {"/metrics", "metrics for Prometheus, text format 0.0.4", metrics, Need::metrics},
    {"/v1/version", "version and engine of the daemon, JSON", version},
    {"/v1/daemons", "the daemons that share the engine, JSON; text with Accept: text/plain",
     daemons, Need::daemons},
    {"/v1/jobs", "the loaded jobs, JSON; with several daemons all jobs and their owners", jobs,
     Need::jobs},
    {"/v1/checkpoint", "POST {\"path\": \"/absolute\"}: writes a copy of the state", checkpoint,
     Need::checkpoint, "POST"},
    {kJobs,
     "the runs of a job, its ranks and who waits for whom, JSON; text with Accept: text/plain", job,
     Need::job, "GET, HEAD", "{job}"},
    {kJobs, "DELETE: removes a job with its runs and rows; 409 while a session is connected",
     remove_job, Need::removal, "DELETE", "{job}"},
    {kJobs, "DELETE: closes all connections of a launch of PyTorch trainers", end_run, Need::end,
     "DELETE", "{job}/runs/{run}", kRuns},
    {kJobs, "the endpoints of a job: ports leased for TCPStore clients, JSON", endpoints,
     Need::endpoints, "GET, HEAD", "{job}/endpoints", kEndpoints, true},
    {kJobs, "POST {\"name\": \"a\"}, with run, ttl, world_size: leases an endpoint, or renews it",
     lease_endpoint, Need::lease, "POST", "{job}/endpoints", kEndpoints, true},
    {kJobs, "DELETE {\"name\": \"a\"}: releases an endpoint", release_endpoint, Need::release,
     "DELETE", "{job}/endpoints", kEndpoints, true},
    {kJobs, "POST {\"to\": \"host:port\"}: moves a job to another daemon on the same engine", move,
     Need::move, "POST", "{job}/move", kMove, true},
    {kJobs, "DELETE: releases an endpoint", release_endpoint, Need::release, "DELETE",
     "{job}/endpoints/{name}", kEndpoint},
};

HttpReply index_page(const HttpRequest&, const ServerFacts& facts) {
  std::string text = "c10dd " + facts.version + "\n\n";
  for (const Route& route : kRoutes) {
    std::string path = std::string(route.path).append(route.rest);
    path.resize(std::max<std::size_t>(path.size() + 1, 16), ' ');
    text.append(path).append(route.sentence) += '\n';
  }
  return {200, kText, text};
}

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
  const std::string_view methods = route.methods;
  if (methods == "GET, HEAD") return request.method == "GET" || request.method == "HEAD";
  return request.method == methods;
}

/// Returns true if the path is that of a route with a variable part.
bool fills(const Route& route, std::string_view path) {
  if (path.size() <= route.path.size() || !path.starts_with(route.path)) return false;
  const std::size_t at = path.find(route.inside, route.path.size());
  return at != path.npos && (!route.ends || at + route.inside.size() == path.size());
}

/// Returns the route of the path that has the method or, if there is none, a route of the path. Of
/// several routes, the last one is the most specific.
const Route* find_route(const HttpRequest& request) {
  const std::string_view path = path_of(request.target);
  const Route* found = nullptr;
  for (const Route& route : kRoutes) {
    const bool here = route.rest.empty() ? path == route.path : fills(route, path);
    const bool better = found == nullptr || fits(route, request) || !fits(*found, request);
    if (here && better) found = &route;
  }
  return found;
}

/// Returns the methods of all routes of a path, as the field Allow has them.
std::string methods_of(const Route& of) {
  std::string methods;
  for (const Route& route : kRoutes) {
    if (route.path != of.path || route.rest != of.rest) continue;
    methods += (methods.empty() ? "" : ", ") + std::string(route.methods);
  }
  return methods;
}

/// Decodes a percent-encoded name.
Result<std::string> decoded(std::string_view path) {
  std::optional<std::string> name = percent_decoded(path);
  if (name) return std::move(*name);
  return failure(Code::invalid_argument,
                 "job: name is not percent-encoded; use /v1/jobs/NAME, with %25 for %");
}

}  // namespace

Need need_of(const HttpRequest& request, const ServerFacts& facts) {
  const Route* route = find_route(request);
  if (!facts.host_known || !route || !fits(*route, request)) return Need::nothing;
  bool refused = false;
  if (route->need == Need::checkpoint) refused = !facts.local || !checkpoint_path(request);
  if (route->need == Need::job) refused = !job_of(request);
  if (route->need == Need::end) refused = !facts.local || !run_of(request);
  if (route->need == Need::removal) refused = !facts.local || !job_of(request);
  if (route->need == Need::endpoints) refused = !job_of_endpoints(request);
  if (route->need == Need::lease) {
    refused = !facts.local || !job_of_endpoints(request) || !lease_of(request);
  }
  if (route->need == Need::release) {
    refused = !facts.local || !job_of_endpoints(request) || !endpoint_to_release(request);
  }
  if (route->need == Need::move) {
    refused = !facts.local || !job_of_move(request) || !target_of(request);
  }
  return refused ? Need::nothing : route->need;
}

Result<std::string> checkpoint_path(const HttpRequest& request) {
  const std::string example = R"({"path": "/absolute/path"})";
  const Result<boost::json::object> fields = json_body(request, "checkpoint", example);
  if (!fields) return fields.error();
  const boost::json::value* const path = fields->if_contains("path");
  if (!path || !path->is_string() || fields->size() != 1) {
    return failure(Code::invalid_argument,
                   "checkpoint: body must have one member, a string named path; send for example "
                   "{}",
                   example);
  }
  std::string text(path->as_string());
  if (text.empty() || text.front() != '/' || text.find('\0') != std::string::npos) {
    return failure(Code::invalid_argument, "checkpoint: path is not absolute; send for example {}",
                   example);
  }
  return text;
}

Result<std::string> job_of(const HttpRequest& request) {
  return decoded(path_of(request.target).substr(kJobs.size()));
}

Result<std::string> job_of_move(const HttpRequest& request) {
  const std::string_view path = path_of(request.target).substr(kJobs.size());
  return decoded(path.substr(0, path.find(kMove)));
}

std::string origin_of(const HttpRequest& request) {
  const std::size_t query = request.target.find('?');
  const std::string path(path_of(request.target));
  return query == std::string::npos ? path : path + request.target.substr(query);
}

Result<RunName> run_of(const HttpRequest& request) {
  const std::string_view path = path_of(request.target).substr(kJobs.size());
  const std::size_t middle = path.rfind(kRuns);
  Result<std::string> job = decoded(path.substr(0, middle));
  Result<std::string> run = decoded(path.substr(middle + kRuns.size()));
  if (!job) return job.error();
  if (!run) return run.error();
  return RunName{std::move(*job), std::move(*run)};
}

Result<std::string> job_of_endpoints(const HttpRequest& request) {
  const std::string_view path = path_of(request.target).substr(kJobs.size());
  return decoded(path.substr(0, path.find(kEndpoints)));
}

Result<std::string> endpoint_to_release(const HttpRequest& request) {
  const std::string_view path = path_of(request.target).substr(kJobs.size());
  const std::string_view name = path.substr(path.find(kEndpoints) + kEndpoints.size());
  return name.empty() ? released_name(request) : decoded(name.substr(1));
}

HttpReply handle(const HttpRequest& request, const ServerFacts& facts) {
  if (!facts.host_known) {
    return http_error(403, Code::permission_denied,
                      format("unknown host \"{}\" for a listener on loopback; use localhost or "
                             "127.0.0.1, or allow the name with --http-hosts",
                             printable(request.host, 128)));
  }
  const Route* route = find_route(request);
  if (!route) {
    return http_error(
        404, Code::not_found,
        format("unknown route {}; GET / lists all routes", request.target.substr(0, 128)));
  }
  if (!fits(*route, request)) {
    HttpReply refused =
        http_error(405, Code::unsupported,
                   format("{} is not allowed on {}; use {}", request.method.substr(0, 32),
                          route->path, methods_of(*route)));
    refused.allow = methods_of(*route);
    return refused;
  }
  return route->respond(request, facts);
}

}  // namespace c10dd::daemon
