// SPDX-License-Identifier: Apache-2.0
// The wait-fors of sends and receives. A rank tells only its oldest one, and the two ends of a
// message have numbers of their own.
#include "daemon/core/planted.h"
#include "daemon/core/reports/collective_waits.h"
#include "protocol/format.h"

namespace c10dd::core {
namespace {

using Kind = UnfinishedOperation::Kind;

/// Returns the end of the arguments of a message, which is "tag 5" or "any tag"; empty if they are
/// not told so.
std::string_view tag_of(std::string_view arguments) {
  const std::size_t any = arguments.rfind("any tag");
  const std::size_t at = any != arguments.npos ? any : arguments.rfind("tag ");
  return at == arguments.npos ? std::string_view() : arguments.substr(at);
}

/// Returns whether the tags of two messages tell that one is not the other end of the other one.
/// Without a further unfinished message on either side, nothing else of them is under way.
bool differ_in_tag(const RankActivity& one, const RankActivity& other) {
  if (one.messages.unfinished > 1 || other.messages.unfinished > 1) return false;
  const std::string_view here = tag_of(one.message.text->arguments);
  const std::string_view there = tag_of(other.message.text->arguments);
  const bool both = here.starts_with("tag ") && there.starts_with("tag ");
  return both && here != there;
}

/// Returns whether a peer is in the other end of a message that `rank` sends or receives.
bool is_other_end(const RankActivity& peer, Kind of, Rank rank) {
  const OldestOperation& message = peer.message;
  if (!message.exists() || peer.state != RankActivity::State::open) return false;
  const bool names_it = message.peer == static_cast<std::int32_t>(rank);
  if (of == Kind::receive) return message.kind == Kind::send && names_it;
  return message.kind == Kind::receive && (names_it || message.peer < 0);
}

}  // namespace

void CollectiveWaits::add_messages(std::uint64_t process_group, const ActivityGroup& group) {
  std::vector<bool> sent_to(group.size());
  for (const RankActivity& rank : group.ranks) {
    const OldestOperation& message = rank.message;
    const bool open = message.exists() && rank.state == RankActivity::State::open;
    if (!open || message.kind != Kind::send || message.peer < 0) continue;
    sent_to[static_cast<Rank>(message.peer)] = true;
  }
  for (Rank rank = 0; rank < group.size() && !list_.full(); ++rank) {
    const RankActivity& known = group.ranks[rank];
    if (!waits(known, known.message) || known.message.peer == static_cast<std::int32_t>(rank)) {
      continue;
    }
    const bool from_any = known.message.kind == Kind::receive && known.message.peer < 0;
    if (from_any && sent_to[rank]) continue;  // the wait-for of the sender says it
    const Process& process = process_of(known);
    if (is_unknown(known, process)) {
      settled_ = false;
    } else if (!process.lost) {
      add_message(process_group, group, rank);
    }
  }
}

void CollectiveWaits::add_message(std::uint64_t process_group, const ActivityGroup& group,
                                  Rank rank) {
  const RankActivity& own = group.ranks[rank];
  const OldestOperation& message = own.message;
  const bool sends = message.kind == Kind::send;
  WaitFor one{.kind = sends ? WaitFor::Kind::send : WaitFor::Kind::receive};
  one.what =
      operation_text(message.text->name, sends ? "send" : "receive", message.sequence, group.name);
  one.since = message.since;
  one.waiting = {*process_of(own).place};
  one.process_group = process_group;
  one.usual = message.usual;
  one.confirmed = message.told > 1;
  if (message.peer < 0) return add_wait(std::move(one));  // it receives from any rank
  const auto peer = static_cast<Rank>(message.peer);
  const RankActivity& other = group.ranks[peer];
  if (other.state == RankActivity::State::absent) {
    await_absent(group, {peer}, one);
    return add_wait(std::move(one));
  }
  const Process& process = process_of(other);
  if (is_unknown(other, process)) settled_ = false;
  const Duration ago = now_ - other.reported;
  const bool current = ago <= kFresh || ago > kSettled;
  const bool meets = !process.lost && current && is_other_end(other, message.kind, rank);
  if (meets && differ_in_tag(own, other)) {
    one.what = format("{} {} with {} of {}", message.text->name, message.sequence,
                      tag_of(message.text->arguments), group.name);
  } else if (meets) {
    // Both are in the message. The wait-for of the receiver says it, if it waits, too.
    if (sends && waits(other, other.message) && other.message.peer >= 0) return;
    one.kind = WaitFor::Kind::collective;
    one.waiting.push_back(*process.place);
    if (message.begun && !other.message.begun) one.queued = {*process.place};
    if (!message.begun && other.message.begun) one.queued = {*process_of(own).place};
    return add_wait(std::move(one));
  }
  one.awaited = {*process.place};
  if ((other.blocked && process.fresh) || planted(Planted::threads_ignored)) one.held = one.awaited;
  // Of several unfinished messages only the oldest is known.
  const bool all_known = other.messages.unfinished <= (other.message.exists() ? 1U : 0U);
  // It has issued more collectives, and stands still: it does not come to the message.
  const bool stands = waits(other, other.collective) || now_ - other.ended_at >= kStands;
  const bool ahead = other.collectives.issued > own.collectives.issued && stands;
  if (planted(Planted::unsent_ignored)) return add_wait(std::move(one));
  // Of a circle of messages, none is more to blame than the others.
  const bool blocked = list_.facts(*process.place).blocked && !waits(other, other.message);
  one.unsent = !process.lost && all_known && (ahead || blocked);
  add_wait(std::move(one));
}

}  // namespace c10dd::core
