// SPDX-License-Identifier: Apache-2.0
#include "daemon/http/forwarding.h"

#include "protocol/format.h"
#include "protocol/limits.h"
#include "protocol/utf8.h"

namespace c10dd::daemon {
namespace {

namespace asio = boost::asio;

/// Returns the name of the job that a request is about; nothing if it is about no job.
std::optional<std::string> job_named_by(const HttpRequest& request, Need need) {
  switch (need) {
    case Need::job:
    case Need::removal:
      return *job_of(request);
    case Need::end:
      return run_of(request)->job;
    case Need::endpoints:
    case Need::lease:
    case Need::release:
      return *job_of_endpoints(request);
    case Need::move:
      return *job_of_move(request);
    default:
      return std::nullopt;
  }
}

std::string names_of(const std::vector<Peer>& peers) {
  std::string list;
  for (const Peer& peer : peers) {
    (list += list.empty() ? "" : ", ") +=
        peer.addresses.empty() ? "an unknown address" : printable_name(peer.addresses.front());
  }
  return list;
}

HttpReply not_again(const std::string& job, const JobPlaces& places, const HttpRequest& request) {
  Failure why = failure(
      Code::unavailable,
      "job \"{}\" is served by the daemon at {}, but the daemon at {} has forwarded "
      "the request to this one; a request is forwarded only once: try again",
      printable_name(job), names_of(places.elsewhere), printable_name(request.forwarded_by));
  why.retry_after = std::chrono::seconds(1);
  return http_error(why);
}

HttpReply several_owners(const std::string& job, const JobPlaces& places) {
  return http_error(
      409, Code::not_owner,
      format("the runs of job \"{}\" are served by several daemons: {}{}; move the job to "
             "one of them first, or end the processes of the other runs",
             printable_name(job), places.here ? "this one, " : "", names_of(places.elsewhere)));
}

/// Adds what the other daemons reply about their runs to the facts. Returns a failure as the reply.
asio::awaitable<ForwardedReply> gather(const JobPlaces& places, Need need, ServerFacts& facts,
                                       const Forward& forward) {
  for (const Peer& peer : places.elsewhere) {
    std::optional<HttpReply> reply = co_await forward(peer);
    if (!reply) co_return ForwardedReply{true, {}};
    if (reply->status == 404) continue;  // its runs have ended meanwhile
    if (reply->status != 200) co_return ForwardedReply{false, std::move(reply)};
    auto& parts = need == Need::move ? facts.moved_elsewhere : facts.page.elsewhere;
    parts.push_back(std::move(reply->body));
  }
  co_return ForwardedReply{};
}

}  // namespace

asio::awaitable<ForwardedReply> reply_of_others(Operations& operations, const HttpRequest& request,
                                                Need need, ServerFacts& facts,
                                                const Forward& forward) {
  const std::optional<std::string> job = job_named_by(request, need);
  if (!job) co_return ForwardedReply{};
  const Result<JobPlaces> places = co_await operations.places_of(*job);
  if (!places) co_return ForwardedReply{false, http_error(places.error())};
  if (places->elsewhere.empty()) co_return ForwardedReply{};
  if (!request.forwarded_by.empty()) {
    if (places->here) co_return ForwardedReply{};
    co_return ForwardedReply{false, not_again(*job, *places, request)};
  }
  if (places->elsewhere.size() == 1 && !places->here) {
    std::optional<HttpReply> reply = co_await forward(places->elsewhere.front());
    const bool gone = !reply;
    co_return ForwardedReply{gone, std::move(reply)};
  }
  switch (need) {
    case Need::job:
    case Need::move:
      co_return co_await gather(*places, need, facts, forward);
    case Need::removal:
      co_return ForwardedReply{false, several_owners(*job, *places)};
    case Need::end:  // a launch of PyTorch is where the daemon has its connections
      if (places->here) co_return ForwardedReply{};
      co_return ForwardedReply{false, several_owners(*job, *places)};
    default:  // the endpoints are in the directory, which all daemons have
      co_return ForwardedReply{};
  }
}

}  // namespace c10dd::daemon
