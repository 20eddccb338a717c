// SPDX-License-Identifier: Apache-2.0
#include "daemon/core/torch/launch_ranks.h"

#include <cstring>

#include "daemon/core/torch/rank_keys.h"

namespace c10dd::core {
namespace {

constexpr std::string_view kJoins = "init/";
constexpr std::string_view kDump = "exception_dump";

/// Returns false for most keys that tell neither a rank nor the number of ranks. Looks only at the
/// end of the key, because each set of a key calls this function.
bool may_tell(std::string_view key) {
  if (key.empty()) return false;
  const char last = key.back();
  if (last >= '0' && last <= '9') {
    return key.find('/') != std::string_view::npos || key.starts_with("rank_");
  }
  return key.ends_with(".FIN");
}

}  // namespace

// ---- processes ---------------------------------------------------------------------------------

void LaunchRanks::opened(const SessionId& id, const Session& session) {
  if (sessions_.contains(id)) return;
  const ProcessId key{session.host, session.pid, session.pid == 0 ? id : SessionId{}};
  const auto [entry, added] = processes_.try_emplace(key);
  Process& process = entry->second;
  process.host = session.host;
  process.pid = session.pid;
  if (!added && process.has_left()) {  // it left, and has come back
    left_.erase(key);
    if (process.counts()) ++here_;
  }
  process.sessions.insert(id);
  sessions_.emplace(id, entry);
  if (!session.fleeting) proxied_.insert(id);
}

void LaunchRanks::ended(const SessionId& id, Ending ending, TimePoint now) {
  const auto found = sessions_.find(id);
  if (found == sessions_.end()) return;
  const Entry entry = found->second;
  Process& process = entry->second;
  sessions_.erase(found);
  proxied_.erase(id);
  process.sessions.erase(id);
  process.ending = ending;
  process.left_at = now;
  if (!process.has_left()) return;
  const bool counts = process.counts();
  if (counts) --here_;
  if (counts && here_ > 0 && left_.size() < kLeft) {
    left_.insert(entry->first);
    return;
  }
  if (counts && here_ > 0) ++forgotten_;
  if (process.rank) ranks_.erase(*process.rank);
  processes_.erase(entry);
  if (here_ == 0) forget_left();
}

void LaunchRanks::forget_left() {
  for (const ProcessId& id : left_) {
    const auto entry = processes_.find(id);
    if (entry->second.rank) ranks_.erase(*entry->second.rank);
    processes_.erase(entry);
  }
  left_.clear();
  forgotten_ = 0;
}

const LaunchRanks::Process* LaunchRanks::of_session(const SessionId& id) const {
  const auto found = sessions_.find(id);
  return found == sessions_.end() ? nullptr : &found->second->second;
}

const LaunchRanks::Process* LaunchRanks::of_rank(Rank rank) const {
  const auto found = ranks_.find(rank);
  return found == ranks_.end() ? nullptr : &found->second->second;
}

// ---- keys --------------------------------------------------------------------------------------

bool LaunchRanks::key_set(std::string_view key, std::string_view value, const SessionId& by,
                          TimePoint now) {
  const bool noted = note_key(key);
  const bool joins = key.ends_with(kJoins);
  const bool dumps = key.ends_with(kDump);
  if (!noted && !joins && !dumps) return false;
  const auto found = sessions_.find(by);
  if (found == sessions_.end()) return false;
  const Entry entry = found->second;
  Process& process = entry->second;
  const bool counted = process.counts();
  if (joins) process.joined = true;
  if (dumps) note_dump(process, value, now);
  if (noted && agent_key(key)) process.agent = true;
  if (noted) take_rank(entry, key);
  if (counted || !process.counts()) return dumps;
  ++here_;
  newest_ = now;
  forget_left();  // the new process may be in the place of one of them
  return true;
}

/// The watchdog of PyTorch's NCCL group sets this key to its rank, in 4 bytes, when a collective
/// has timed out: the ranks then write what their flight recorders have.
void LaunchRanks::note_dump(Process& process, std::string_view value, TimePoint now) {
  if (!process.gave_up) process.dumped_at = now;
  process.gave_up = true;
  if (process.rank || value.size() != sizeof(std::int32_t)) return;
  std::int32_t rank = -1;
  std::memcpy(&rank, value.data(), sizeof rank);
  if (rank >= 0) process.gave_up_as = static_cast<Rank>(rank);
}

/// Gives a process the rank of a key that it has set. Its first key decides.
void LaunchRanks::take_rank(Entry process, std::string_view key) {
  const auto rank = job_rank_of_key(key);
  if (!rank || process->second.rank) return;
  if (const auto holder = ranks_.find(*rank); holder != ranks_.end()) lose_rank(holder->second);
  process->second.rank = *rank;
  ranks_.emplace(*rank, process);
}

void LaunchRanks::lose_rank(Entry process) {
  ranks_.erase(*process->second.rank);
  process->second.rank.reset();
  if (process->second.counts()) return;
  if (!process->second.has_left()) {
    --here_;
    return;
  }
  left_.erase(process->first);
  processes_.erase(process);
}

bool LaunchRanks::note_key(std::string_view key) {
  if (!may_tell(key) || (!agent_key(key) && !rank_of_key(key))) return false;
  if (key.size() > kKeyBytes) return false;
  told_.reset();
  if (key_bytes_ + key.size() <= kAllKeyBytes && keys_.emplace(key).second) {
    key_bytes_ += key.size();
  }
  return true;
}

void LaunchRanks::key_removed(std::string_view key) {
  if (!may_tell(key)) return;
  const auto found = keys_.find(key);
  if (found == keys_.end()) return;
  key_bytes_ -= found->size();
  keys_.erase(found);
  told_.reset();
}

const LaunchTold& LaunchRanks::told(const KeySpace& keys) const {
  if (told_) return *told_;
  told_.emplace();
  WorldSize world;
  for (const Bytes& key : keys_) {
    const KeySpace::StoredValue* const stored = keys.find(key);
    if (stored == nullptr) continue;
    if (const auto node = agent_key(key)) {
      if (node->kind == AgentKey::Kind::size) told_->nodes.insert(node->node);
    } else {
      told_->trainers = told_->trainers || rank_of_key(key);
      if (const auto rank = job_rank_of_key(key)) told_->ranks.insert(*rank);
    }
    world.look_at(key, *stored);
  }
  told_->world_size = world.found();
  told_->differing = world.differing();
  return *told_;
}

AuditResult LaunchRanks::audit(const Sessions& sessions) const {
  std::size_t open = 0;
  std::size_t here = 0;
  std::size_t left = 0;
  std::size_t ranks = 0;
  for (const auto& [id, process] : processes_) {
    for (const SessionId& session : process.sessions) open += sessions.find(session) != nullptr;
    here += !process.has_left() && process.counts();
    left += process.has_left();
    ranks += process.rank.has_value();
  }
  std::size_t bytes = 0;
  for (const Bytes& key : keys_) bytes += key.size();
  return first_difference({differ("sessions of processes of a launch", sessions_.size(), open),
                           differ("connected processes of a launch", here_, here),
                           differ("processes that have left a launch", left_.size(), left),
                           differ("ranks of processes of a launch", ranks_.size(), ranks),
                           differ("bytes of keys that tell ranks", key_bytes_, bytes)});
}

}  // namespace c10dd::core
