// SPDX-License-Identifier: Apache-2.0
// A route that changes something serves only clients on this machine. It accepts only a POST of
// JSON or a DELETE, because a web page from a foreign site cannot make a browser send these
// requests.
#include "daemon/http/route_table.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <utility>

#include "daemon/http/job_page.h"
#include "protocol/address.h"
#include "protocol/format.h"
#include "protocol/json_text.h"
#include "protocol/limits.h"
#include "protocol/ops.h"
#include "protocol/percent.h"
#include "protocol/utf8.h"

namespace c10dd::daemon {
namespace {

namespace asio = boost::asio;
using Reply = asio::awaitable<HttpReply>;

constexpr const char* kText = "text/plain; charset=utf-8";
constexpr const char* kJson = "application/json";
constexpr std::size_t kLoadsShown = 16;  // in /readyz

// g++ 12 destroys the list of {...} twice if it stands in a co_return, so replies are made here.

HttpReply text_reply(std::string text) { return {200, kText, std::move(text)}; }
HttpReply json_reply(std::string text) { return {200, kJson, std::move(text)}; }
HttpReply json_reply(const boost::json::value& body) {
  return json_reply(json::text_of(body) + "\n");
}
/// Returns an object with one member, a name.
HttpReply name_reply(std::string_view member, const std::string& name) {
  boost::json::object body;
  body[member] = name;
  return json_reply(body);
}

// ---- the daemon --------------------------------------------------------------------------------

Reply index_page(RouteCall& call);

Reply livez(RouteCall&) { co_return text_reply("ok\n"); }

/// Returns a line for each job that is being loaded.
std::string lines_of(const std::vector<core::LoadReport>& loads, bool names_jobs) {
  std::string text;
  for (std::size_t i = 0; i < std::min(loads.size(), kLoadsShown); ++i) {
    const core::LoadReport& load = loads[i];
    const std::string name = names_jobs ? described(load) : format("job number {}", load.number);
    text += "loading: " + name + ", " + progress_of(load) + "\n";
  }
  if (loads.size() <= kLoadsShown) return text;
  return text + format("loading: {} more jobs\n", loads.size() - kLoadsShown);
}

HttpReply readiness(const ServerFacts& facts, const std::vector<core::LoadReport>& loads) {
  const bool ready = facts.not_ready.empty();
  HttpReply reply = text_reply((ready ? "ready" : "not ready: " + facts.not_ready) +
                               "\nengine: " + facts.engine + "\ndurability: " + facts.durability +
                               "\n" + (facts.note.empty() ? "" : "note: " + facts.note + "\n") +
                               lines_of(loads, facts.names_jobs));
  if (!ready) reply.status = 503;
  return reply;
}

Reply readyz(RouteCall& call) {
  const std::vector<core::LoadReport> loads = co_await call.operations.job_loads();
  co_return readiness(call.operations.facts(), loads);
}

Reply metrics(RouteCall& call) {
  HttpReply reply;
  reply.status = 200;
  reply.content_type = "text/plain; version=0.0.4; charset=utf-8";
  reply.body = co_await call.operations.metrics_text(call.metrics_only);
  co_return reply;
}

HttpReply version_of(const ServerFacts& facts) {
  const boost::json::value body = {{"version", facts.version},
                                   {"protocol_version", kProtocolVersion},
                                   {"engine", facts.engine},
                                   {"durability", facts.durability},
                                   {"uptime_seconds", facts.uptime.count()}};
  return json_reply(body);
}

Reply version(RouteCall& call) { co_return version_of(call.operations.facts()); }

Reply daemons(RouteCall& call) {
  const DaemonsPage page = co_await call.operations.daemons();
  if (call.wants_text()) co_return text_reply(text_of(page));
  co_return json_reply(json_of(page));
}

/// Returns the directory that the body of a checkpoint request names. Fails if the content type or
/// the body is invalid, or if the path is not absolute.
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

Result<void> check_checkpoint(const HttpRequest& request) {
  const Result<std::string> path = checkpoint_path(request);
  return path ? Result<void>() : path.error();
}

Reply checkpoint(RouteCall& call) {
  const std::string path = *checkpoint_path(call.request);
  const Result<void> done = co_await call.operations.checkpoint(path);
  if (!done) co_return http_error(done.error());
  co_return name_reply("path", path);
}

// ---- jobs --------------------------------------------------------------------------------------

/// Leaves out the jobs in which the client may do nothing.
void leave_out_others(JobsPage& page, const core::JobRoles& roles) {
  const auto is_others = [&](const std::string& job) { return roles.in(job) == core::Role::none; };
  std::erase_if(page.served, [&](const core::JobReport& run) { return is_others(run.name); });
  std::erase_if(page.loads, [&](const core::LoadReport& run) { return is_others(run.name); });
  std::erase_if(page.owners, [&](const core::RunOwner& one) { return is_others(one.run.job); });
}

Reply jobs(RouteCall& call) {
  JobsPage page = co_await call.operations.owners();
  page.served = co_await call.operations.job_reports();
  page.loads = co_await call.operations.job_loads();
  if (call.roles != nullptr) leave_out_others(page, *call.roles);
  co_return json_reply(json_of(page));
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

/// The reply about a job that has no run here or elsewhere.
HttpReply job_without_runs(const RouteCall& call, const JobPage& page) {
  if (page.stored) {
    Failure why = failure(Code::unavailable,
                          "job \"{}\" is being moved or claimed by another daemon; try again",
                          printable(page.job, limits::kNameBytes));
    why.retry_after = std::chrono::seconds(1);
    return http_error(why);
  }
  const std::string shown = printable_name(page.job);
  const std::string begin = how_to_begin(shown, page.trainers);
  if (page.trainers.empty()) {
    return http_error(404, Code::not_found,
                      format("job \"{}\" has no loaded run; GET /v1/jobs lists the loaded jobs; {}",
                             shown, begin));
  }
  const std::string note = format("job \"{}\" waits for its first rank; {}", shown, begin);
  if (call.wants_text()) return text_reply(note + "\n");
  const boost::json::value body = {{"job", shown}, {"runs", boost::json::array()}, {"note", note}};
  return json_reply(body);
}

Reply job(RouteCall& call) {
  JobPage page;
  page.job = call.job();
  page.elsewhere = std::move(call.elsewhere);
  page.runs = co_await call.operations.runs_of(page.job);
  page.loads = co_await call.operations.job_loads();
  std::erase_if(page.loads, [&](const core::LoadReport& load) { return load.name != page.job; });
  page.stored = call.operations.is_stored(page.job);
  page.trainers = call.operations.address_for_trainers(page.job);
  const bool none = page.runs.empty() && page.loads.empty() && page.elsewhere.empty();
  if (none) co_return job_without_runs(call, page);
  if (call.wants_text()) co_return text_reply(text_of(page));
  co_return json_reply(json_of(page));
}

Reply remove_job(RouteCall& call) {
  const Result<void> done = co_await call.operations.remove_job(call.job());
  if (!done) {
    const Failure& why = done.error();
    const bool in_use = why.code == Code::unavailable && call.operations.facts().not_ready.empty();
    co_return http_error(in_use ? 409 : describe(why.code).http_status, why.code, why.detail);
  }
  co_return name_reply("removed", printable(call.job(), limits::kNameBytes));
}

Reply end_run(RouteCall& call) {
  const std::string& run = call.names.at(1);
  const Result<void> done = call.operations.end_run(call.job(), run);
  if (!done) co_return http_error(done.error());
  co_return name_reply("ended", printable(run, limits::kNameBytes));
}

Result<void> check_move(const HttpRequest& request) {
  const Result<std::string> to = target_of(request);
  return to ? Result<void>() : to.error();
}

Reply move(RouteCall& call) {
  const Result<MoveReport> moved =
      co_await call.operations.move_job(call.job(), *target_of(call.request));
  if (moved) co_return json_reply(json_of(*moved, call.elsewhere));
  const Failure& why = moved.error();
  // Another try helps only if the failure says when.
  const bool conflict = why.code == Code::unavailable && why.retry_after == Duration::zero();
  co_return conflict ? http_error(409, why.code, why.detail) : http_error(why);
}

// ---- endpoints ---------------------------------------------------------------------------------

Reply endpoints(RouteCall& call) {
  const Result<std::vector<EndpointReport>> found = call.operations.endpoints_of(call.job());
  if (!found) co_return http_error(found.error());
  co_return json_reply(json_of(call.job(), *found));
}

Result<void> check_lease(const HttpRequest& request) {
  const Result<LeaseEndpoint> lease = lease_of(request);
  return lease ? Result<void>() : lease.error();
}

Reply lease_endpoint(RouteCall& call) {
  const LeaseEndpoint lease = *lease_of(call.request);
  const Result<EndpointReport> leased = co_await call.operations.lease_endpoint(call.job(), lease);
  if (!leased) co_return http_error(leased.error());
  if (!leased->problem.empty()) {
    co_return http_error(
        failure(Code::unavailable, "endpoint \"{}\" is leased, but cannot be reached: {}",
                printable(leased->endpoint.name, limits::kNameBytes), leased->problem));
  }
  co_return json_reply(json_of(*leased));
}

asio::awaitable<HttpReply> release(RouteCall& call, std::string name) {
  const Result<void> done = co_await call.operations.release_endpoint(call.job(), name);
  if (!done) co_return http_error(done.error());
  co_return name_reply("released", printable(name, limits::kNameBytes));
}

Reply release_endpoint(RouteCall& call) { return release(call, call.names.at(1)); }

Result<void> check_release(const HttpRequest& request) {
  const Result<std::string> name = released_name(request);
  return name ? Result<void>() : name.error();
}

Reply release_named_endpoint(RouteCall& call) {
  return release(call, *released_name(call.request));
}

// ---- the table ---------------------------------------------------------------------------------

constexpr Route::Who kThisMachine = Route::Who::this_machine;

/// Of several routes that fit a path, the last one is the most specific.
constexpr Route kRoutes[] = {
    {.method = "GET", .pattern = "/", .sentence = "this list", .reply = index_page},
    {.method = "GET",
     .pattern = "/livez",
     .sentence = "200 while the daemon runs",
     .for_metrics = true,
     .reply = livez},
    {.method = "GET",
     .pattern = "/readyz",
     .sentence = "200 if requests are served, otherwise 503 with the reason",
     .for_metrics = true,
     .reply = readyz},
    {.method = "GET",
     .pattern = "/metrics",
     .sentence = "metrics for Prometheus, text format 0.0.4",
     .role = core::Role::viewer,
     .for_metrics = true,
     .reply = metrics},
    {.method = "GET",
     .pattern = "/v1/version",
     .sentence = "version and engine of the daemon, JSON",
     .reply = version},
    {.method = "GET",
     .pattern = "/v1/daemons",
     .sentence = "the daemons that share the engine, JSON; text with Accept: text/plain",
     .role = core::Role::viewer,
     .reply = daemons},
    {.method = "GET",
     .pattern = "/v1/jobs",
     .sentence = "the loaded jobs, JSON; with several daemons all jobs and their owners",
     .role = core::Role::viewer,
     .in_any = true,
     .reply = jobs},
    {.method = "POST",
     .pattern = "/v1/checkpoint",
     .sentence = "POST {\"path\": \"/absolute\"}: writes a copy of the state",
     .who = kThisMachine,
     .act = "write a checkpoint",
     .role = core::Role::admin,
     .check = check_checkpoint,
     .reply = checkpoint},
    {.method = "GET",
     .pattern = "/v1/jobs/{job}",
     .sentence =
         "the runs of a job, its ranks and who waits for whom, JSON; text with Accept: text/plain",
     .role = core::Role::viewer,
     .fleet = FleetReply::all,
     .reply = job},
    {.method = "DELETE",
     .pattern = "/v1/jobs/{job}",
     .sentence = "DELETE: removes a job with its runs and rows; 409 while a session is connected",
     .who = kThisMachine,
     .act = "remove a job",
     .role = core::Role::admin,
     .fleet = FleetReply::one_owner,
     .reply = remove_job},
    {.method = "DELETE",
     .pattern = "/v1/jobs/{job}/runs/{run}",
     .sentence = "DELETE: closes all connections of a launch of PyTorch trainers",
     .who = kThisMachine,
     .act = "end a run",
     .role = core::Role::trainer,
     .fleet = FleetReply::one_owner_or_here,
     .reply = end_run},
    {.method = "GET",
     .pattern = "/v1/jobs/{job}/endpoints",
     .sentence = "the endpoints of a job: ports leased for TCPStore clients, JSON",
     .role = core::Role::viewer,
     .fleet = FleetReply::owner,
     .reply = endpoints},
    {.method = "POST",
     .pattern = "/v1/jobs/{job}/endpoints",
     .sentence =
         "POST {\"name\": \"a\"}, with run, ttl, world_size: leases an endpoint, or renews it",
     .who = kThisMachine,
     .act = "lease an endpoint",
     .role = core::Role::trainer,
     .fleet = FleetReply::owner,
     .check = check_lease,
     .reply = lease_endpoint},
    {.method = "DELETE",
     .pattern = "/v1/jobs/{job}/endpoints",
     .sentence = "DELETE {\"name\": \"a\"}: releases an endpoint",
     .who = kThisMachine,
     .act = "release an endpoint",
     .role = core::Role::trainer,
     .fleet = FleetReply::owner,
     .check = check_release,
     .reply = release_named_endpoint},
    {.method = "POST",
     .pattern = "/v1/jobs/{job}/move",
     .sentence = "POST {\"to\": \"host:port\"}: moves a job to another daemon on the same engine",
     .who = kThisMachine,
     .act = "move a job",
     .role = core::Role::admin,
     .fleet = FleetReply::all,
     .check = check_move,
     .reply = move},
    {.method = "DELETE",
     .pattern = "/v1/jobs/{job}/endpoints/{name}",
     .sentence = "DELETE: releases an endpoint",
     .who = kThisMachine,
     .act = "release an endpoint",
     .role = core::Role::trainer,
     .fleet = FleetReply::owner,
     .reply = release_endpoint},
};

Reply index_page(RouteCall& call) {
  std::string text = "c10dd " + call.operations.facts().version + "\n\n";
  for (const Route& route : kRoutes) {
    std::string path(route.pattern);
    path.resize(std::max<std::size_t>(path.size() + 1, 16), ' ');
    text.append(path).append(route.sentence) += '\n';
  }
  co_return text_reply(text);
}

}  // namespace

std::span<const Route> all_routes() { return kRoutes; }

}  // namespace c10dd::daemon
