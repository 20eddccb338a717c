// SPDX-License-Identifier: Apache-2.0
// A group is held up at the lowest sequence that some rank has not ended. Those who have issued it
// wait for those who have not. Ranks that have issued different operations wait for ever. Where the
// records do not tell what has started, as those of NCCL, a rank is taken to be in the first
// operation of all its groups, and what it has issued afterwards to be queued behind it.
#include "client/ctl/flight_waits.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "protocol/format.h"

namespace c10dd::ctl {
namespace {

using OpState = FlightOperation::State;

/// How far a member with a record has come.
struct Standing {
  const FlightMember* member;
  std::int64_t newest = -1;  ///< sequence up to which it has issued all; -1: it has issued nothing
  std::int64_t most = -1;    ///< it has issued nothing after this sequence
  const FlightOperation* waits = nullptr;  ///< its oldest operation that is not over

  const FlightCall& call(const FlightOperation& one) const {
    return member->record->record.calls[one.call];
  }
};

std::int64_t sequence_of(const FlightOperation& one) {
  return static_cast<std::int64_t>(one.sequence);
}

/// Returns for example "all_reduce 5 of 4 float32".
std::string numbered(const FlightCall& call, std::uint64_t sequence) {
  const bool begins = call.text.starts_with(call.name);
  return begins ? format("{} {}{}", call.name, sequence, call.text.substr(call.name.size()))
                : format("{} {} ({})", call.name, sequence, call.text);
}

TimePoint time_of(std::int64_t created) { return TimePoint(Duration(created)); }

class GroupRules {
 public:
  explicit GroupRules(const JobGroup& group) : group_(group) {
    for (const FlightMember& member : group.members) {
      if (member.record == nullptr) continue;
      Standing& one = standings_.emplace_back(Standing{&member});
      one.newest = member.issued_at_least;
      if (!operations_of(member).empty()) {
        one.newest = std::max(one.newest, sequence_of(operations_of(member).back()));
      }
      one.most = std::max(one.newest, member.issued_at_most);
      last_shared_ = std::min(last_shared_, one.most);
    }
    for (Standing& one : standings_) {
      for (const FlightOperation& operation : operations_of(*one.member)) {
        if (one.waits == nullptr && is_unfinished(one, operation)) one.waits = &operation;
      }
    }
  }

  GroupWaits found() const {
    GroupWaits out{.view = view()};
    if (const auto different = first_difference()) {
      add_difference(*different, out);
    } else {
      add_waits(out);
    }
    add_messages(out);
    return out;
  }

 private:
  static const std::vector<FlightOperation>& operations_of(const FlightMember& member) {
    static const std::vector<FlightOperation> none;
    return member.group == nullptr ? none : member.group->operations;
  }

  bool is_unfinished(const Standing& of, const FlightOperation& one) const {
    if (!one.is_over()) return true;
    if (sequence_of(one) <= last_shared_) return false;
    if (one.state != OpState::ended || !of.call(one).for_all) return false;
    // It cannot have succeeded if a rank had not issued it.
    return std::ranges::any_of(standings_, [&](const Standing& other) {
      return other.most < sequence_of(one) && !is_older(other, one.created);
    });
  }
  /// Returns whether the record of a rank was written before a time.
  static bool is_older(const Standing& of, std::int64_t time) {
    return of.member->record->written != 0 && of.member->record->written < time;
  }

  /// Returns the lowest sequence at which two ranks have issued different collectives.
  std::optional<std::uint64_t> first_difference() const {
    std::unordered_map<std::uint64_t, const std::string*> seen;
    std::optional<std::uint64_t> first;
    for (const Standing& one : standings_) {
      for (const FlightOperation& operation : operations_of(*one.member)) {
        if (first && operation.sequence >= *first) break;
        const std::string& text = one.call(operation).text;
        const auto [known, is_new] = seen.try_emplace(operation.sequence, &text);
        if (!is_new && *known->second != text) first = operation.sequence;
      }
    }
    return first;
  }

  WaitFor collective(const std::string& name, std::uint64_t sequence) const {
    WaitFor out{.kind = WaitFor::Kind::collective,
                .what = format("{} {} of {}", name, sequence, group_.label)};
    out.process_group = group_.number;
    out.confirmed = true;  // a record is written because the job hangs
    return out;
  }
  static void add_waiting(WaitFor& to, const Standing& one) {
    const TimePoint since = time_of(one.waits->created);
    to.since = to.waiting.empty() ? since : std::min(to.since, since);
    to.waiting.push_back(one.member->place);
  }

  /// A record does not tell threads. It is written after a time-out, so none has come for long.
  static void hold(WaitFor& wait) {
    wait.held = wait.awaited;
    std::ranges::sort(wait.held);
  }

  void add_difference(std::uint64_t sequence, GroupWaits& out) const {
    std::map<std::string, IssuedCall> calls;
    std::string name;
    std::size_t most = 0;
    TimePoint issued = TimePoint::max();
    for (const Standing& one : standings_) {
      const auto& all = operations_of(*one.member);
      const auto at = std::ranges::lower_bound(all, sequence, {}, &FlightOperation::sequence);
      if (at == all.end() || at->sequence != sequence) continue;
      const FlightCall& call = one.call(*at);
      IssuedCall& same = calls[call.text];
      same.call = call.text;
      same.ranks.push_back(one.member->place);
      issued = std::min(issued, time_of(at->created));
      if (same.ranks.size() > most) {
        most = same.ranks.size();
        name = call.name;
      }
    }
    WaitFor wait = collective(name, sequence);
    for (const Standing& one : standings_) {
      if (one.waits != nullptr) add_waiting(wait, one);
      if (one.waits == nullptr && one.most < static_cast<std::int64_t>(sequence)) {
        wait.awaited.push_back(one.member->place);
      }
    }
    for (auto& [text, call] : calls) wait.issued.push_back(std::move(call));
    if (!wait.waiting.empty()) return out.wait_fors.push_back(std::move(wait));
    Deviation deviation{.group = group_.label, .process_group = group_.number, .since = issued};
    deviation.from = sequence;
    deviation.to = sequence + 1;
    for (const IssuedCall& call : wait.issued) {
      auto& side = call.ranks.size() == most ? deviation.others : deviation.ranks;
      side.insert(side.end(), call.ranks.begin(), call.ranks.end());
    }
    // Of two halves nobody knows which one is right.
    if (deviation.ranks.empty()) std::swap(deviation.ranks, deviation.others);
    std::ranges::sort(deviation.ranks);
    std::ranges::sort(deviation.others);
    out.deviations.push_back(std::move(deviation));
  }

  void add_waits(GroupWaits& out) const {
    std::map<std::uint64_t, std::vector<const Standing*>> by_sequence;
    for (const Standing& one : standings_) {
      if (one.waits != nullptr) by_sequence[one.waits->sequence].push_back(&one);
    }
    for (const auto& [sequence, waiting] : by_sequence) {
      const Standing& first = *waiting.front();
      WaitFor wait = collective(first.call(*first.waits).name, sequence);
      for (const Standing* one : waiting) add_waiting(wait, *one);
      const bool told =
          std::ranges::any_of(waiting, [](const Standing* one) { return one->waits->begun; });
      for (const Standing& one : standings_) {
        if (one.most < static_cast<std::int64_t>(sequence)) {
          wait.awaited.push_back(one.member->place);
        }
      }
      if (wait.awaited.empty()) await_unknown(wait, sequence, out.untold);
      const bool complete = wait.awaited.empty() && wait.unnamed == 0;
      if (complete) wait.ended = group_.members.size() - waiting.size();
      for (const Standing* one : waiting) {
        const bool queued =
            !one->waits->begun && !one->waits->is_over() && (told || is_behind_another(*one));
        if (complete && queued) wait.queued.push_back(one->member->place);
      }
      if (wait.queued.size() == group_.members.size()) wait.queued.clear();
      std::ranges::sort(wait.queued);
      hold(wait);
      out.wait_fors.push_back(std::move(wait));
    }
  }
  /// Returns whether the process has issued an operation of another group before, which is not
  /// over.
  static bool is_behind_another(const Standing& of) {
    return std::ranges::any_of(of.member->record->record.oldest, [&](const auto& oldest) {
      return oldest.first < of.waits->created && oldest.second != of.member->group->name;
    });
  }
  /// All ranks whose records tell it have issued it: the others may have not.
  void await_unknown(WaitFor& wait, std::uint64_t sequence,
                     std::vector<std::size_t>& untold) const {
    for (const FlightMember& member : group_.members) {
      if (member.record == nullptr) wait.awaited.push_back(member.place);
    }
    for (const Standing& one : standings_) {
      if (one.newest >= static_cast<std::int64_t>(sequence)) continue;
      wait.awaited.push_back(one.member->place);
      untold.push_back(one.member->place);
    }
    std::ranges::sort(wait.awaited);
    wait.open = !group_.complete;
    if (wait.awaited.empty() && group_.members.size() == 1 && wait.open) wait.unnamed = 1;
  }

  /// Messages that are not over, from one rank to another.
  struct Messages {
    std::vector<const FlightMessage*> sends = {};
    std::vector<const FlightMessage*> receives = {};
  };

  void add_messages(GroupWaits& out) const {
    if (!group_.numbered) return add_messages_to_unknown(out);
    std::map<std::pair<std::size_t, std::size_t>, Messages> all;  // by places among the members
    for (std::size_t at = 0; at < group_.members.size(); ++at) {
      const FlightGroup* const of = group_.members[at].group;
      if (of == nullptr) continue;
      for (const FlightMessage& one : of->messages) {
        if (one.peer >= group_.members.size() || one.peer == at) continue;
        if (one.receives) {
          all[{one.peer, at}].receives.push_back(&one);
        } else {
          all[{at, one.peer}].sends.push_back(&one);
        }
      }
    }
    for (const auto& [ends, messages] : all) {
      out.wait_fors.push_back(
          message_wait(group_.members[ends.first], group_.members[ends.second], messages));
    }
  }
  /// Nobody knows which rank the other end of a message is.
  void add_messages_to_unknown(GroupWaits& out) const {
    for (const Standing& one : standings_) {
      if (one.member->group == nullptr || one.member->group->messages.empty()) continue;
      WaitFor wait = message_end(one.member->group->messages.front());
      wait.waiting = {one.member->place};
      wait.unnamed = 1;
      wait.open = true;
      out.wait_fors.push_back(std::move(wait));
    }
  }
  WaitFor message_end(const FlightMessage& one) const {
    WaitFor wait{.kind = one.receives ? WaitFor::Kind::receive : WaitFor::Kind::send};
    wait.what = format("{} {} of {}", one.receives ? "recv" : "send", one.sequence, group_.label);
    wait.since = time_of(one.created);
    wait.process_group = group_.number;
    wait.confirmed = true;
    return wait;
  }
  /// The oldest messages of both sides belong together.
  WaitFor message_wait(const FlightMember& from, const FlightMember& to,
                       const Messages& messages) const {
    const std::size_t sends = messages.sends.size();
    const std::size_t receives = messages.receives.size();
    if (sends == receives) {
      WaitFor wait = message_end(*messages.sends.front());
      wait.kind = WaitFor::Kind::collective;
      wait.what = format("message from rank {} to rank {} of {}", from.rank, to.rank, group_.label);
      wait.waiting = {from.place, to.place};
      std::ranges::sort(wait.waiting);
      return wait;
    }
    const bool sending = sends > receives;
    WaitFor wait = message_end(sending ? *messages.sends[receives] : *messages.receives[sends]);
    wait.waiting = {sending ? from.place : to.place};
    wait.awaited = {sending ? to.place : from.place};
    hold(wait);
    return wait;
  }

  /// Returns what a member has issued, whose operation in the record is `at`, or null.
  static std::string call_of(const Standing& of, const FlightOperation* at) {
    if (at != nullptr) return numbered(of.call(*at), at->sequence);
    if (of.newest >= 0) return format("collective {}", of.newest);
    return of.most < 0 ? "" : "nothing that is in the record";
  }

  FlightGroupView view() const {
    FlightGroupView out{.label = group_.label, .complete = group_.complete};
    for (const FlightMember& member : group_.members) out.ranks.push_back(member.rank);
    std::int64_t last = std::numeric_limits<std::int64_t>::max();
    std::map<std::tuple<std::int64_t, std::string, OpState, std::string>, std::vector<Rank>>
        positions;
    for (const Standing& one : standings_) {
      const auto& all = operations_of(*one.member);
      const FlightOperation* const at =
          one.waits != nullptr || all.empty() ? one.waits : &all.back();
      if (one.newest == one.most || at != nullptr) {
        last = std::min(last, one.waits == nullptr ? one.newest : sequence_of(*one.waits) - 1);
      }
      const OpState state = at == nullptr ? OpState::issued : at->state;
      const std::string line = at == nullptr ? "" : one.member->record->record.lines[at->line];
      const std::int64_t sequence = at == nullptr ? one.newest : sequence_of(*at);
      positions[{sequence, call_of(one, at), state, line}].push_back(one.member->rank);
    }
    if (last == std::numeric_limits<std::int64_t>::max()) last = -1;
    if (last >= 0 && !standings_.empty()) out.last = static_cast<std::uint64_t>(last);
    for (auto& [key, ranks] : positions) {
      out.positions.push_back({.call = std::get<1>(key),
                               .state = std::get<2>(key),
                               .line = std::get<3>(key),
                               .ranks = std::move(ranks)});
    }
    return out;
  }

  const JobGroup& group_;
  std::vector<Standing> standings_;
  // Sequence after which a rank has surely issued nothing.
  std::int64_t last_shared_ = std::numeric_limits<std::int64_t>::max();
};

}  // namespace

GroupWaits find_waits(const JobGroup& group) { return GroupRules(group).found(); }

}  // namespace c10dd::ctl
