// SPDX-License-Identifier: Apache-2.0
// What ServerOperations does about the other daemons of the fleet.
#include <algorithm>
#include <map>

#include "daemon/config/version.h"
#include "daemon/server_operations.h"
#include "daemon/shard/caused_log.h"
#include "protocol/format.h"
#include "protocol/limits.h"
#include "protocol/utf8.h"

namespace c10dd::daemon {
namespace {

using NamedRun = core::Directory::NamedRun;

/// How often the directory is read again because it has changed while owners were looked up.
constexpr int kDirectoryReads = 3;

std::vector<JobNumber> numbers_of(const std::vector<NamedRun>& runs) {
  std::vector<JobNumber> numbers;
  for (const NamedRun& run : runs) numbers.push_back(run.number);
  return numbers;
}

/// Returns the key as it is in a request; nothing for that of a daemon without one.
std::string secret_of(const native::RelayKey& key) {
  return key.is_set() ? format("{:016x}{:016x}", key.high, key.low) : "";
}

/// Returns the daemon of the fleet with this process number.
Peer peer_of(const core::FleetView& fleet, std::uint64_t process) {
  const store::DaemonFacts& facts = fleet.daemons().at(process).row.facts;
  return {facts.addresses, secret_of(facts.relay_key), facts.tls};
}

/// Returns why a job in which unmodified PyTorch is connected is not moved.
Failure would_end(const std::string& job, const std::string& run, std::size_t connections) {
  const std::string shown = printable(job, limits::kNameBytes);
  std::string text = format(
      "move: run {} of job \"{}\" has {} connection{} of unmodified PyTorch, which does not "
      "reconnect: a move would end the run; wait until it has ended",
      run.empty() ? "\"\"" : printable(run, limits::kNameBytes), shown, connections,
      connections == 1 ? "" : "s");
  if (core::is_plain_name(run)) {
    text += format(", or end it now with DELETE /v1/jobs/{}/runs/{}", shown,
                   printable(run, limits::kNameBytes));
  }
  return failure(Code::unavailable, "{}", text);
}

/// Compares in a time that does not depend on where the texts differ.
bool same(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned differences = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    differences |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]);
  }
  return differences == 0;
}

}  // namespace

/// Reads the fleet and the owners of these jobs, and follows the directory if it has changed.
asio::awaitable<Result<OwnerLookup::Found>> ServerOperations::look_up(
    const std::vector<JobNumber>& jobs) {
  const std::function<void(std::function<void(Result<OwnerLookup::Found>)>)> ask = [&](auto then) {
    lookup_.find(jobs, std::move(then));
  };
  Result<OwnerLookup::Found> found = co_await reply_of(ask);
  if (!found) co_return found;
  of_.host.directory().heard(found->fleet);
  const std::function<void(std::function<void(Result<void>)>)> follow = [&](auto then) {
    of_.host.directory().after_changes([then] { then(Result<void>()); });
  };
  co_await reply_of(follow);
  co_return found;
}

// ---- pages -------------------------------------------------------------------------------------

asio::awaitable<Result<std::vector<core::RunOwner>>> ServerOperations::all_owners() {
  std::vector<NamedRun> runs = of_.host.directory().runs();
  for (int looks = 0;; ++looks) {
    const std::vector<JobNumber> numbers = numbers_of(runs);
    const Result<OwnerLookup::Found> found = co_await look_up(numbers);
    if (!found) co_return found.error();
    std::vector<NamedRun> newer = of_.host.directory().runs();
    if (looks + 1 < kDirectoryReads && numbers_of(newer) != numbers) {
      runs = std::move(newer);
      continue;
    }
    std::vector<core::RunOwner> owners;
    for (std::size_t n = 0; n < runs.size(); ++n) {
      owners.push_back(core::owner_of(runs[n], found->owners[n], *of_.host.directory().fleet()));
    }
    co_return owners;
  }
}

asio::awaitable<JobsPage> ServerOperations::owners() {
  JobsPage page;
  if (!of_.host.directory().is_open()) page.problem = of_.host.not_ready();
  if (!of_.host.directory().fleet() || !page.problem.empty()) co_return page;
  Result<std::vector<core::RunOwner>> owners = co_await all_owners();
  if (!owners) page.problem = owners.error().detail;
  if (owners) page.owners = std::move(*owners);
  page.self = of_.addresses;
  co_return page;
}

asio::awaitable<DaemonsPage> ServerOperations::daemons() {
  DaemonsPage page;
  if (!of_.host.directory().fleet()) {
    const std::size_t jobs = of_.host.directory().runs().size();
    page.daemons.push_back({of_.addresses, kVersion, {}, {}, of_.draining, true, jobs});
    co_return page;
  }
  Result<std::vector<core::RunOwner>> owners = core::unavailable(of_.host.not_ready());
  if (of_.host.directory().is_open()) owners = co_await all_owners();
  if (!owners) page.problem = owners.error().detail;
  std::map<std::uint64_t, std::size_t> owned;
  if (owners) {
    for (const core::RunOwner& run : *owners) {
      if (run.owner) ++owned[run.owner->process];
    }
  }
  const core::FleetView& fleet = *of_.host.directory().fleet();
  for (const auto& [process, other] : fleet.daemons()) {
    const store::DaemonFacts& facts = other.row.facts;
    page.daemons.push_back({facts.addresses, facts.version, facts.lease, other.silent,
                            facts.draining, process == fleet.self(), owned[process]});
  }
  std::ranges::sort(page.daemons, {}, &DaemonsPage::Row::addresses);
  co_return page;
}

/// Sets the metrics of the fleet.
void ServerOperations::report_fleet() {
  const std::optional<Duration> left = of_.host.lease_left();
  of_.metrics.lease(!left || *left > Duration::zero(), left.value_or(Duration::zero()));
  std::map<std::string, Duration> silences;
  if (const auto& fleet = of_.host.directory().fleet()) {
    for (const auto& [process, other] : fleet->daemons()) {
      if (process == fleet->self() || other.row.facts.addresses.empty()) continue;
      const auto [at, is_new] = silences.emplace(other.row.facts.addresses.front(), other.silent);
      at->second = std::min(at->second, other.silent);  // a dead one may have had its address
    }
  }
  of_.metrics.silences(silences);
}

// ---- requests for jobs of other daemons --------------------------------------------------------

asio::awaitable<std::vector<JobNumber>> ServerOperations::served_runs(const std::string& job) {
  const std::function<std::vector<JobNumber>(Shard&)> ask = [job](Shard& shard) {
    return shard.host().jobs().numbers_of(job);
  };
  std::vector<JobNumber> served = co_await gather(ask);
  std::ranges::sort(served);
  co_return served;
}

bool ServerOperations::is_stored(const std::string& job) const {
  return of_.host.directory().fleet() && !of_.host.directory().runs(job).empty();
}

/// Looks again if another daemon has claimed a run that nobody owned a moment ago.
asio::awaitable<Result<JobPlaces>> ServerOperations::places_of(const std::string& job) {
  for (int looks = 1;; ++looks) {
    Result<JobPlaces> places = co_await look_for(job);
    if (places || places.error().code != Code::not_owner) co_return places;
    if (looks == kDirectoryReads)
      co_return core::unavailable(places.error().detail + "; try again");
  }
}

/// As places_of(), but fails with not_owner if another daemon has just claimed a run.
asio::awaitable<Result<JobPlaces>> ServerOperations::look_for(const std::string& job) {
  JobPlaces places;
  core::DirectoryHost& directory = of_.host.directory();
  const std::vector<JobNumber> served = co_await served_runs(job);
  if (!directory.is_open() && served.empty()) co_return core::unavailable(of_.host.not_ready());
  if (!directory.fleet() || !directory.is_open()) co_return places;
  const auto missing = [&] {
    std::vector<NamedRun> runs = directory.runs(job);
    std::erase_if(
        runs, [&](const NamedRun& run) { return std::ranges::binary_search(served, run.number); });
    return runs;
  };
  std::vector<NamedRun> runs = missing();
  std::vector<std::optional<store::Owner>> owners;
  for (int looks = 0; looks < kDirectoryReads; ++looks) {
    const std::vector<JobNumber> numbers = numbers_of(runs);
    const Result<OwnerLookup::Found> found = co_await look_up(numbers);
    if (!found && !served.empty()) co_return places;  // what it has is better than nothing
    if (!found) co_return found.error();
    owners = found->owners;
    std::vector<NamedRun> newer = missing();
    if (numbers_of(newer) == numbers) break;
    owners.clear();
    runs = std::move(newer);
  }
  if (owners.size() != runs.size()) {
    co_return core::unavailable("the job directory changed each time it was read; try again");
  }
  const core::RunOwners where = core::run_owners(runs, owners, *directory.fleet());
  if (where.undecided) co_return *where.undecided;
  places.here = !served.empty() || !where.claimable.empty() || where.elsewhere.empty();
  for (const core::RunOwners::Elsewhere& other : where.elsewhere) {
    places.elsewhere.push_back(peer_of(*directory.fleet(), other.process));
  }
  for (const NamedRun& run : where.claimable) {
    const std::function<void(std::function<void(Result<void>)>)> serve = [&](auto then) {
      directory.serve(run, std::move(then));
    };
    const Result<void> done = co_await reply_of(serve);
    if (done || done.error().code == Code::not_found) continue;
    if (done.error().code == Code::not_owner) co_return done.error();
    Failure why = core::unavailable(done.error().detail);
    why.retry_after = std::max(why.retry_after, done.error().retry_after);
    co_return why;
  }
  co_return places;
}

asio::awaitable<HttpReply> ServerOperations::forward(const HttpRequest& request, const Peer& to,
                                                     bool trusted) {
  co_return co_await forwarder_.forward(request, to, trusted);
}

bool ServerOperations::is_fleet_secret(std::string_view secret) const {
  const std::optional<core::FleetView>& fleet = of_.host.directory().fleet();
  if (!fleet) return false;
  const std::string own = secret_of(fleet->own_relay_key());
  return !own.empty() && same(own, secret);
}

// ---- moves -------------------------------------------------------------------------------------

asio::awaitable<Result<MoveReport>> ServerOperations::move_job(const std::string& job,
                                                               const std::string& to) {
  core::DirectoryHost& directory = of_.host.directory();
  const std::string shown = printable(job, limits::kNameBytes);
  if (!directory.fleet()) {
    co_return failure(Code::unsupported,
                      "move: the engine {} of this daemon is not shared, so job \"{}\" cannot be "
                      "moved to {}",
                      of_.host.engine_name(), shown, printable(to, limits::kNameBytes));
  }
  const std::function<std::vector<std::pair<std::string, std::size_t>>(Shard&)> count =
      [job](Shard& shard) { return shard.host().jobs().fleeting_in(job); };
  const std::vector<std::pair<std::string, std::size_t>> in_use = co_await gather(count);
  if (!in_use.empty()) co_return would_end(job, in_use.front().first, in_use.front().second);
  std::vector<JobNumber> numbers = co_await served_runs(job);
  std::erase_if(numbers, core::is_volatile_number);
  if (numbers.empty() && is_stored(job)) {
    Failure why = core::unavailable(
        format("move: job \"{}\" is being moved or claimed by another daemon; try again", shown));
    why.retry_after = std::chrono::seconds(1);
    co_return why;
  }
  if (numbers.empty()) {
    co_return failure(
        Code::not_found,
        "move: no daemon serves a stored run of job \"{}\", so nothing can be moved to "
        "{}; GET /v1/jobs lists the jobs",
        shown, printable(to, limits::kNameBytes));
  }
  const std::vector<JobNumber> none;  // only the fleet
  const Result<OwnerLookup::Found> found = co_await look_up(none);
  if (!found) co_return found.error();
  const Result<store::DaemonFacts> target = core::target_of_move(to, *directory.fleet());
  if (!target) co_return target.error();
  MoveReport report{job, to, {}, {}};
  if (target->process == directory.fleet()->self()) {
    report.note = format("nothing to do: the daemon at {} already serves job \"{}\"", to, shown);
    co_return report;
  }
  for (const NamedRun& run : directory.runs(job)) {
    if (!std::ranges::binary_search(numbers, run.number)) continue;
    const std::function<void(std::function<void(Result<void>)>)> move = [&](auto then) {
      core::JobHost& host = of_.shards.of(run.number).host();
      const auto back = [this, then](const Result<void>& done) {
        asio::post(loop_, [then, done] { then(done); });
      };
      host.loop().post([&host, number = run.number,
                        move = core::JobMove{target->process, target->addresses, back}] {
        host.move(number, move);
      });
    };
    const Result<void> done = co_await reply_of(move);
    if (!done && done.error().code == Code::not_found) continue;  // it has ended meanwhile
    if (!done) co_return core::unavailable(done.error().detail);
    of_.metrics.job_moved();
    log_caused("", LogLevel::info, "event=job_moved job={} number={} to={}", shown, run.number, to);
    report.runs.push_back(run.run);
  }
  co_return report;
}

}  // namespace c10dd::daemon
