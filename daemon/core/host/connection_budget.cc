// SPDX-License-Identifier: Apache-2.0
// Counts the bytes that connections hold, and chooses the connections to close.
#include "daemon/core/host/connection_budget.h"

#include <string>

#include "protocol/format.h"

namespace c10dd::core {

ConnectionBudget::Holders::iterator ConnectionBudget::find(Connection connection) {
  const auto [at, made] = holders_.try_emplace(connection);
  if (made) at->second.since = looks_;
  return at;
}

void ConnectionBudget::hold(Holders::iterator at, std::uint64_t Holder::*what,
                            std::uint64_t bytes) {
  Holder& holder = at->second;
  by_size_.erase({holder.held(), at->first});
  held_ -= holder.held();
  holder.*what = bytes;
  held_ += holder.held();
  if (holder.held() > 0) by_size_.insert({holder.held(), at->first});
}

void ConnectionBudget::forget_empty(Holders::iterator at) {
  if (at->second.held() == 0 && at->second.wanted == 0) holders_.erase(at);
}

void ConnectionBudget::remove(Holders::iterator at) {
  by_size_.erase({at->second.held(), at->first});
  held_ -= at->second.held();
  if (at->second.wanted > 0) waiting_.erase({at->second.wanted, at->second.turn});
  holders_.erase(at);
}

bool ConnectionBudget::begin_frame(Connection connection, std::uint64_t size) {
  const auto at = find(connection);
  if (held_ - at->second.frame + size <= limit_) {
    hold(at, &Holder::frame, size);
    return true;
  }
  at->second.wanted = size;
  at->second.turn = next_turn_--;
  waiting_.emplace(std::pair(size, at->second.turn), connection);
  return false;
}

ConnectionBudget::Decisions ConnectionBudget::end_frame(Connection connection) {
  Decisions decisions;
  const auto at = holders_.find(connection);
  if (at == holders_.end()) return decisions;
  hold(at, &Holder::frame, 0);
  forget_empty(at);
  give_room(decisions);
  return decisions;
}

ConnectionBudget::Decisions ConnectionBudget::set_replies(Connection connection,
                                                          std::uint64_t bytes) {
  Decisions decisions;
  const auto at = find(connection);
  hold(at, &Holder::replies, bytes);
  forget_empty(at);
  while (held_ > 2 * limit_) close(holders_.find(by_size_.rbegin()->second), decisions);
  give_room(decisions);
  return decisions;
}

ConnectionBudget::Decisions ConnectionBudget::leave(Connection connection) {
  Decisions decisions;
  const auto at = holders_.find(connection);
  if (at == holders_.end()) return decisions;
  remove(at);
  give_room(decisions);
  return decisions;
}

ConnectionBudget::Decisions ConnectionBudget::look() {
  Decisions decisions;
  ++looks_;
  // The loops use copies, because close() and give_room() change by_size_ and waiting_.
  std::vector<Connection> most_first;
  for (auto at = by_size_.rbegin(); at != by_size_.rend(); ++at) most_first.push_back(at->second);
  for (const Connection connection : most_first) {
    if (!scarce()) return decisions;
    const auto at = holders_.find(connection);
    if (patient(at->second)) continue;
    close(at, decisions);
    give_room(decisions);
  }
  std::vector<Connection> too_late;
  for (const auto& [order, connection] : waiting_) {
    if (!patient(holders_.at(connection))) too_late.push_back(connection);
  }
  for (const Connection connection : too_late) close(holders_.find(connection), decisions);
  return decisions;
}

void ConnectionBudget::close(Holders::iterator at, Decisions& decisions) {
  const Holder& holder = at->second;
  const std::string own =
      holder.held() > 0
          ? format("this one holds {}: send whole frames, read the replies, or try again later",
                   holder.held())
          : format("the frame of {} bytes on this one does not fit: try again later",
                   holder.wanted);
  decisions.close.push_back(
      {at->first,
       failure(Code::quota_exceeded,
               "all connections together hold {} bytes of unfinished frames and unread replies, "
               "limit {} (see --max-bytes); {}",
               held_, limit_, own)});
  remove(at);
}

/// Lets waiting connections read on, in ascending order of frame size, until a frame does not fit.
void ConnectionBudget::give_room(Decisions& decisions) {
  while (!waiting_.empty()) {
    const auto first = waiting_.begin();
    const auto at = holders_.find(first->second);
    Holder& holder = at->second;
    if (held_ - holder.frame + holder.wanted > limit_) return;
    waiting_.erase(first);
    hold(at, &Holder::frame, std::exchange(holder.wanted, 0));
    holder.since = looks_;
    decisions.read_on.push_back(at->first);
  }
}

}  // namespace c10dd::core
