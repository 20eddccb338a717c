// SPDX-License-Identifier: Apache-2.0
#include "daemon/core/torch/plain_runs.h"

#include <algorithm>
#include <iterator>

#include "daemon/core/planted.h"
#include "daemon/core/torch/rank_keys.h"
#include "daemon/core/torch/world_size.h"
#include "protocol/format.h"
#include "protocol/names.h"
#include "protocol/native_wire.h"
#include "protocol/utf8.h"
#include "protocol/wording.h"

namespace c10dd::core {
namespace {

constexpr std::string_view kPlain = "plain-";
constexpr std::string_view kRendezvous = "rdzv-";
constexpr std::string_view kRendezvousKey = "/torch.rendezvous.";
constexpr std::string_view kJoinKey = "init/";
constexpr std::size_t kIdBytes = 200;  // a run has no longer rendezvous ID in its name

/// Returns the name of the run of a rendezvous ID. An ID that cannot be in a name is hashed.
std::string rendezvous_run(std::string_view id) {
  std::string name = std::string(kRendezvous).append(id);
  if (id.size() <= kIdBytes && check_name("run", name)) return name;
  return format("{}hash-{:016x}", kRendezvous, native::fingerprint(0, id));
}

bool same_process(const PlainRuns::Peer& a, const PlainRuns::Peer& b) {
  return a.pid != 0 && a.pid == b.pid && a.address == b.address;
}

std::string describe(const PlainRuns::Peer& peer) { return process_text(peer.address, peer.pid); }

/// Returns whether the value of a rank's key tells another world size than that of another rank.
/// All others have told the same.
template <class Keys>
bool tells_another_size(const Keys& keys, const std::string& key) {
  const auto own = keys.find(key);
  if (own == keys.end() || own->second.world_size == 0) return false;
  const std::string_view group = group_of_rank_key(key);
  for (auto it = keys.lower_bound(group); it != keys.end() && it->first.starts_with(group); ++it) {
    if (it == own || it->second.world_size == 0) continue;
    return it->second.world_size != own->second.world_size;
  }
  return false;
}

}  // namespace

bool is_plain_name(std::string_view run) {
  if (run.starts_with(kRendezvous)) return true;
  if (!run.starts_with(kPlain)) return false;
  const std::string_view number = run.substr(kPlain.size());
  return !number.empty() && number.find_first_not_of("0123456789") == std::string_view::npos;
}

PlainRuns::First PlainRuns::first_request(const Request& request) {
  if (const auto* compare = std::get_if<CompareSet>(&request)) {
    const std::string_view key = compare->key;
    if (key.starts_with(kRendezvousKey)) {
      return {First::Kind::rendezvous, rendezvous_run(key.substr(kRendezvousKey.size()))};
    }
  }
  const auto* add = std::get_if<Add>(&request);
  if (add != nullptr && add->key == kJoinKey) return {First::Kind::join, {}};
  return {};
}

// ---- binding -----------------------------------------------------------------------------------

PlainRuns::Outcome PlainRuns::bind(Connection connection, const Peer& peer, const First& first,
                                   TimePoint now) {
  C10DD_ASSERT(!connections_.contains(connection));
  Outcome out;
  const std::string rested = resting();
  out.run = choose(peer, first, out);
  const auto [run, added] = runs_.try_emplace(out.run);
  if (added) {
    run->second.began = now;
    out.resumed = out.run == rested;
    const std::string from = "connection from " + describe(peer);
    if (out.resumed) {
      out.notes.push_back({"run_resumed", out.run, from});
    } else {
      out.notes.push_back({"run_began", out.run, "first " + from});
    }
  }
  run->second.connections.insert(connection);
  Bound& bound = connections_[connection];
  bound = {.peer = peer, .run = out.run, .order = bound_so_far_++};
  if (peer.pid != 0) processes_[{peer.address, peer.pid}].emplace(bound.order, connection);
  if (first.kind == First::Kind::join) joined(connection);
  return out;
}

/// Returns the name of the run of a new connection, which may not exist yet.
std::string PlainRuns::choose(const Peer& peer, const First& first, Outcome& out) {
  if (first.kind == First::Kind::rendezvous) return first.run;
  const bool joins = first.kind == First::Kind::join;
  const Bound* const own = newest_of(peer, joins);
  const bool overlooked = planted(joins ? Planted::own_run_forgotten : Planted::clone_to_current);
  if (own != nullptr && !overlooked) return own->run;
  if (current_.empty()) return new_run();
  const auto current = runs_.find(current_);
  if (!joins || current == runs_.end() || !current->second.join_ended) return current_;
  const std::string before = current_;
  std::string run = new_run();
  if (current->second.joined > 0) out.notes.push_back(split(peer, run, before, current->second));
  return run;
}

/// Returns the entry for a join that leaves a run behind in which others are connected.
PlainRuns::Note PlainRuns::split(const Peer& peer, const std::string& run,
                                 const std::string& before, const Run& left) {
  if (left.left.contains({peer.address, peer.pid})) {
    Note note{"launch_reopened", run, {}};
    note.detail = format(
        "{} joins again after its connection in run {} ended, while {} are still connected there: "
        "it reopens its process group{}",
        describe(peer), before, left.joined, peer.pid == 0 ? ", or a rank restarted alone" : "");
    return note;
  }
  Note note{"launch_split", run, {}};
  note.detail = format(
      "{} joins, but a joined connection of run {} has ended and {} are still connected: a rank "
      "restarted alone or ended early, or the previous launch still runs; restart all ranks, or "
      "lease an endpoint with a run for them",
      describe(peer), before, left.joined);
  return note;
}

/// Returns the newest live connection of a process; with `joined`, the newest that has joined.
/// Returns nullptr if there is none, or if the pid of the process is not known.
const PlainRuns::Bound* PlainRuns::newest_of(const Peer& peer, bool joined) const {
  const auto process = processes_.find({peer.address, peer.pid});
  if (process == processes_.end()) return nullptr;
  for (auto it = process->second.rbegin(); it != process->second.rend(); ++it) {
    const Bound& bound = connections_.at(it->second);
    if (bound.joined || !joined) return &bound;
  }
  return nullptr;
}

std::string PlainRuns::new_run() {
  current_ = std::string(kPlain) + std::to_string(++runs_so_far_);
  return current_;
}

void PlainRuns::joined(Connection connection) {
  const auto found = connections_.find(connection);
  if (found == connections_.end() || std::exchange(found->second.joined, true)) return;
  ++runs_.find(found->second.run)->second.joined;
}

// ---- ends --------------------------------------------------------------------------------------

PlainRuns::Outcome PlainRuns::closed(Connection connection) {
  Outcome out;
  if (connections_.contains(connection)) forget(connection, "its last connection has ended", out);
  return out;
}

void PlainRuns::retired(const std::string& run) {
  if (!run.empty() && run == resting()) current_.clear();
}

std::optional<PlainRuns::Outcome> PlainRuns::end(const std::string& run, const std::string& why) {
  const auto found = runs_.find(run);
  if (found == runs_.end() && (run.empty() || run != resting())) return std::nullopt;
  Outcome out;
  out.reason = why;
  if (found != runs_.end()) {
    out.close.assign(found->second.connections.begin(), found->second.connections.end());
  }
  for (const Connection connection : out.close) forget(connection, why, out);
  retired(run);
  return out;
}

/// Removes a connection, and its run if this was the last one; `cause` says why the run has ended.
void PlainRuns::forget(Connection connection, std::string_view cause, Outcome& out) {
  const auto found = connections_.find(connection);
  const Bound& bound = found->second;
  const auto entry = runs_.find(bound.run);
  Run& run = entry->second;
  run.connections.erase(connection);
  if (bound.joined) {
    --run.joined;
    const bool counts = run.has_ranks || planted(Planted::run_opened_early);
    if (counts) run.join_ended = !planted(Planted::join_end_forgotten);
    if (counts && run.left.size() < kProcessesLeft) {
      run.left.emplace(bound.peer.address, bound.peer.pid);
    }
  }
  for (const std::string& key : bound.rank_keys) {
    const auto holder = run.rank_keys.find(key);
    if (holder == run.rank_keys.end() || holder->second.connection != connection) continue;
    if (planted(Planted::dead_holder_counts)) continue;
    run.rank_keys.erase(holder);
    --rank_keys_;
  }
  if (bound.peer.pid != 0) {
    const auto process = processes_.find({bound.peer.address, bound.peer.pid});
    process->second.erase(bound.order);
    if (process->second.empty()) processes_.erase(process);
  }
  if (run.connections.empty()) {
    const bool rests = !run.has_ranks && !planted(Planted::run_opened_early);
    if (current_ == bound.run && !rests) current_.clear();
    out.ended.push_back(bound.run);
    out.notes.push_back({"run_ended", bound.run, std::string(cause)});
    rank_keys_ -= run.rank_keys.size();
    runs_.erase(entry);
  }
  connections_.erase(found);
}

// ---- the keys of ranks -------------------------------------------------------------------------

PlainRuns::Outcome PlainRuns::set_key(Connection connection, const KeySet& set, bool blocked,
                                      TimePoint now) {
  Outcome out;
  const std::string& key = set.key;
  const auto found = connections_.find(connection);
  if (found == connections_.end() || key.size() > kRankKeyBytes) return out;
  const std::optional<std::uint32_t> rank = rank_of_key(key);
  if (!rank) return out;
  Run& run = runs_.find(found->second.run)->second;
  const auto holder = run.rank_keys.find(key);
  const Peer& peer = found->second.peer;
  const bool taken = holder != run.rank_keys.end() && holder->second.connection != connection &&
                     !same_process(holder->second.peer, peer);
  if (!taken || planted(Planted::rank_key_set_again)) {
    hold_key(run, connection, set);
    if (run.differing.empty() && tells_another_size(run.rank_keys, key)) {
      run.differing = group_of_rank_key(key);
      out.notes.push_back({"world_sizes_differ", found->second.run, world_sizes(run)});
    }
    return out;
  }
  const std::string name = found->second.run;
  out.refused = true;
  out.reason = format(
      "rank {} is taken: key \"{}\" of run {} was set by {}, which is still connected, and now by "
      "{}; end the processes of the other job, or lease an endpoint with its own name for each "
      "job",
      *rank, printable(key, kRankKeyBytes), name, describe(holder->second.peer), describe(peer));
  run.refused = out.reason;
  const bool young = now - run.began < kYoung && !planted(Planted::young_run_spared);
  if (young || blocked || planted(Planted::quiet_run_closed)) {
    out.close.assign(run.connections.begin(), run.connections.end());
  } else {
    out.close.push_back(connection);
  }
  out.notes.push_back({"rank_taken", name, out.reason});
  for (const Connection one : out.close) forget(one, out.reason, out);
  return out;
}

/// A connection whose request is refused is closed, so it holds none of the keys before.
PlainRuns::Outcome PlainRuns::set_keys(Connection connection, const std::vector<KeySet>& keys,
                                       bool blocked, TimePoint now) {
  Outcome all;
  for (const KeySet& key : keys) {
    Outcome outcome = set_key(connection, key, blocked, now);
    if (outcome.refused) return outcome;
    std::ranges::move(outcome.notes, std::back_inserter(all.notes));
  }
  return all;
}

/// Notes that a connection was the last to set a rank's key.
void PlainRuns::hold_key(Run& run, Connection connection, const KeySet& set) {
  const std::string& key = set.key;
  run.has_ranks = true;
  auto known = run.rank_keys.find(key);
  if (known == run.rank_keys.end()) {
    if (rank_keys_ >= kRankKeys) return;
    known = run.rank_keys.try_emplace(std::string(key)).first;
    ++rank_keys_;
  }
  Bound& bound = connections_.at(connection);
  const auto world_size = world_size_of_gloo(key, set.value_bytes);
  known->second = {connection, bound.peer, world_size.value_or(0)};
  bound.rank_keys.emplace(key);
}

// ---- reports -----------------------------------------------------------------------------------

std::vector<PlainRuns::Report> PlainRuns::reports() const {
  std::vector<Report> all;
  for (const auto& [name, run] : runs_) {
    Report report{name, run.began,   run.connections.size(), run.joined,
                  {},   run.refused, world_sizes(run)};
    for (const auto& [key, holder] : run.rank_keys) {
      report.ranks.push_back({*rank_of_key(key), key, holder.peer, holder.connection});
    }
    all.push_back(std::move(report));
  }
  return all;
}

/// Names the ranks that tell each world size, if those of one group tell several.
std::string PlainRuns::world_sizes(const Run& run) {
  std::map<std::uint64_t, std::vector<std::string>> told;
  const auto first = run.rank_keys.lower_bound(run.differing);
  for (auto it = first; it != run.rank_keys.end() && it->first.starts_with(run.differing); ++it) {
    const Holder& holder = it->second;
    if (run.differing.empty() || holder.world_size == 0) continue;
    told[holder.world_size].push_back(
        format("rank {} on {}", *rank_of_key(it->first), describe(holder.peer)));
  }
  if (told.size() < 2) return {};
  std::string text = "the ranks report different world sizes: ";
  for (const auto& [size, ranks] : told) {
    if (size != told.begin()->first) text += "; ";
    text += std::to_string(size) + " by ";
    for (std::size_t i = 0; i < std::min(ranks.size(), kRanksNamed); ++i) {
      text += (i == 0 ? "" : ", ") + ranks[i];
    }
    if (ranks.size() > kRanksNamed) text += format(" and {} more", ranks.size() - kRanksNamed);
  }
  return text + "; start all ranks with the same world size";
}

std::string PlainRuns::run_of(Connection connection) const {
  const auto found = connections_.find(connection);
  return found == connections_.end() ? std::string() : found->second.run;
}

}  // namespace c10dd::core
