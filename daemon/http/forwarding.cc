// SPDX-License-Identifier: Apache-2.0
#include "daemon/http/forwarding.h"

#include "protocol/format.h"
#include "protocol/limits.h"
#include "protocol/utf8.h"

namespace c10dd::daemon {
namespace {

namespace asio = boost::asio;

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

/// Collects what the other daemons reply about their runs. Returns a failure as the reply.
asio::awaitable<ForwardedReply> gather(const JobPlaces& places, const Forward& forward) {
  ForwardedReply all;
  for (const Peer& peer : places.elsewhere) {
    std::optional<HttpReply> reply = co_await forward(peer);
    if (!reply) co_return ForwardedReply{.client_gone = true, .reply = {}};
    if (reply->status == 404) continue;  // its runs have ended meanwhile
    if (reply->status != 200) co_return ForwardedReply{.reply = std::move(reply)};
    all.elsewhere.push_back(std::move(reply->body));
  }
  co_return all;
}

}  // namespace

asio::awaitable<ForwardedReply> reply_of_others(Operations& operations, const HttpRequest& request,
                                                const std::string& job, FleetReply who,
                                                const Forward& forward) {
  if (who == FleetReply::here) co_return ForwardedReply{};
  const Result<JobPlaces> places = co_await operations.places_of(job);
  if (!places) co_return ForwardedReply{.reply = http_error(places.error())};
  if (places->elsewhere.empty()) co_return ForwardedReply{};
  if (!request.forwarded_by.empty()) {
    if (places->here) co_return ForwardedReply{};
    co_return ForwardedReply{.reply = not_again(job, *places, request)};
  }
  if (places->elsewhere.size() == 1 && !places->here) {
    std::optional<HttpReply> reply = co_await forward(places->elsewhere.front());
    const bool gone = !reply;
    co_return ForwardedReply{.client_gone = gone, .reply = std::move(reply)};
  }
  if (who == FleetReply::all) co_return co_await gather(*places, forward);
  const bool refused =
      who == FleetReply::one_owner || (who == FleetReply::one_owner_or_here && !places->here);
  if (refused) co_return ForwardedReply{.reply = several_owners(job, *places)};
  co_return ForwardedReply{};
}

}  // namespace c10dd::daemon
