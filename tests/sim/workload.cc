// SPDX-License-Identifier: Apache-2.0
// The first letter of a key is its family: s single values, n counters, m many at once, t with a
// time to live, e ephemeral, q queues.
#include "tests/sim/workload.h"

#include <algorithm>

namespace c10dd::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

bool is_read(Work work) {
  constexpr Work kReads[] = {Work::get,   Work::check, Work::multi_get, Work::list,
                             Work::count, Work::wait,  Work::length};
  return std::ranges::find(kReads, work) != std::end(kReads);
}

}  // namespace

Bytes exchange_part(std::uint64_t launch, std::uint64_t generation, std::uint64_t sequence,
                    Rank giver, Rank taker) {
  return std::to_string(launch) + "/" + std::to_string(generation) + "." +
         std::to_string(sequence) + ":" + std::to_string(giver) + ">" + std::to_string(taker);
}

Shape exchange_shape(std::uint64_t sequence) { return static_cast<Shape>(sequence % 4); }

Workload::Workload(const Swarm& swarm, std::shared_ptr<Team> team, std::uint32_t client,
                   std::uint64_t seed)
    : swarm_(swarm), team_(std::move(team)), client_(client), random_(seed) {
  works_ = swarm.works;
  if (random_.chance(25)) std::erase_if(works_, [](Work work) { return !is_read(work); });
  if (works_.empty()) works_ = swarm.works;
  if (swarm.group_policy) group_calls_.emplace(swarm, random_.next());
  watch_.prefix = random_.chance(70);
  watch_.key = watch_.prefix ? Bytes(random_.chance(50) ? "m" : "") : key('s');
}

Bytes Workload::key(char family) {
  return std::string(1, family) + std::to_string(random_.below(swarm_.keys));
}

Bytes Workload::value() {
  Bytes text = std::to_string(client_) + "." + std::to_string(++values_);
  return random_.chance(5) ? text + Bytes(random_.below(3000), '-') : text;
}

Duration Workload::timeout() {
  return random_.chance(40) ? Duration(0) : random_.between(milliseconds(1), seconds(4));
}

Duration Workload::ttl() { return random_.between(milliseconds(20), seconds(4)); }

/// What gives the key a life without an end.
Request Workload::unending(Bytes key) {
  if (random_.chance(50)) return MultiSet{{std::move(key)}, {value()}};
  return CompareSet{std::move(key), last_read_, value()};
}

std::optional<Request> Workload::next() {
  if (group_calls_ && random_.chance(60)) return group_calls_->next();
  return make(random_.pick(works_));
}

std::optional<Request> Workload::make(Work work) {
  switch (work) {
    case Work::set:
      if (random_.chance(15)) return Set{key('n'), std::to_string(random_.below(1000)), {}, false};
      return Set{key('s'), value(), {}, false};
    case Work::get:
      return Get{key("snmte"[random_.below(5)]), timeout()};
    case Work::add:
      return Add{key(random_.chance(95) ? 'n' : 's'),
                 static_cast<std::int64_t>(random_.below(1'000'000)) - 100'000, random_.chance(20)};
    case Work::compare_set:
      return CompareSet{key('s'), random_.chance(60) ? last_read_ : Bytes(), value()};
    case Work::append:
      return Append{key('s'), value()};
    case Work::remove:
      return Remove{key("snmte"[random_.below(5)])};
    case Work::check:
      if (random_.chance(50)) return Check{{key('s')}};
      return Check{{key('m'), key(random_.chance(50) ? 'm' : 'q')}};
    case Work::multi_set:
      return MultiSet{{key('m'), key('m')}, {value(), value()}};
    case Work::multi_get:
      if (random_.chance(30)) {
        return ReadValues{{key('m'), key('s'), key('n')},
                          static_cast<std::uint32_t>(random_.below(4))};
      }
      return MultiGet{{key('m'), key('m'), key('s')}, timeout()};
    case Work::list:
      return List{random_.chance(70) ? "m" : "", "", 0};
    case Work::count:
      return Count{random_.chance(70) ? "m" : ""};
    case Work::remove_prefix:
      return RemovePrefix{random_.chance(80) ? Bytes("m") : key('m')};
    case Work::transact:
      return transaction();
    case Work::wait:
      if (random_.chance(30)) return Wait{{key('q')}, timeout()};
      if (random_.chance(25)) {
        return WaitCounter{key('n'), static_cast<std::int64_t>(random_.below(2'000'000)) - 200'000,
                           timeout()};
      }
      return Wait{{key('s'), key('m')}, timeout(), random_.chance(30)};
    case Work::ttl:
      if (random_.chance(20)) return unending(key('t'));
      return Set{key('t'), value(), ttl(), false};
    case Work::ephemeral:
      if (random_.chance(20)) return unending(key('e'));
      if (random_.chance(20)) return Append{key('e'), value()};
      return Set{key('e'), value(), {}, true};
    case Work::push:
      return QueuePush{key('q'), value()};
    case Work::pop:
      return QueuePop{key('q'), timeout()};
    case Work::length:
      return QueueLength{key('q')};
    case Work::watch:
      if (std::exchange(watching_, true)) return std::nullopt;
      watch_.timeout = random_.between(milliseconds(100), seconds(5));
      return watch_;
    case Work::barrier:
      return barrier(true);
    case Work::exchange:
      return barrier(false);
  }
  return std::nullopt;
}

Request Workload::transaction() {
  Transact transact;
  const std::uint64_t kind = random_.below(5);
  if (kind < 4) {
    transact.conditions.push_back(
        {static_cast<Condition::Kind>(kind), key('m'), last_read_, random_.below(3)});
  }
  const std::uint64_t actions = 1 + random_.below(3);
  for (std::uint64_t i = 0; i < actions; ++i) {
    switch (random_.below(7)) {
      case 0:
        transact.actions.push_back({Action::Kind::remove, key('m'), "", 0, {}, false});
        break;
      case 1:
        transact.actions.push_back({Action::Kind::add, key('n'), "", 7, {}, false});
        break;
      case 2:
        transact.actions.push_back({Action::Kind::append, key('m'), value(), 0, {}, false});
        break;
      case 3:
        transact.actions.push_back({Action::Kind::push, key('q'), value(), 0, {}, false});
        break;
      case 4:
        transact.actions.push_back({Action::Kind::set, key('t'), value(), 0, ttl(), false});
        break;
      case 5:
        transact.actions.push_back({Action::Kind::set, key('e'), value(), 0, {}, true});
        break;
      default:
        transact.actions.push_back({Action::Kind::set, key('m'), value(), 0, {}, false});
    }
  }
  return transact;
}

std::optional<Request> Workload::barrier(bool barrier) {
  Place& place = barrier ? barriers_ : exchanges_;
  if (place.asked) return std::nullopt;
  if (place.generation != team_->generation) place = {team_->generation, 0, false};
  const auto me = std::ranges::find(team_->members, client_);
  if (me == team_->members.end()) return std::nullopt;
  place.asked = true;
  const auto rank = static_cast<Rank>(me - team_->members.begin());
  auto size = static_cast<std::uint32_t>(team_->members.size());
  const Duration patience = random_.between(milliseconds(100), seconds(8));
  if (barrier) {
    if (random_.below(30) == 0) ++size;  // a rank that was started with another world size
    return Barrier{"team", place.generation, place.sequence, rank, size, patience, "", {}};
  }
  const Shape shape = exchange_shape(place.sequence);
  const Rank root = static_cast<Rank>(place.sequence % size);
  std::vector<Bytes> parts;
  const bool many = shape == Shape::transpose || (shape == Shape::from_root && rank == root);
  for (Rank taker = 0; many && taker < size; ++taker) {
    parts.push_back(exchange_part(team_->launch, place.generation, place.sequence, rank, taker));
  }
  if (shape == Shape::all || shape == Shape::to_root) {
    parts.push_back(exchange_part(team_->launch, place.generation, place.sequence, rank, 0));
  }
  return Exchange{
      "team", place.generation, place.sequence, rank, size, shape, root, parts, patience, 0, "",
      {}};
}

void Workload::done(const Op& op) {
  if (group_calls_) group_calls_->done(op);
  const auto met = [&](Place& place, const auto& request) {
    if (!request.group.empty() || place.generation != request.generation) return;
    place.asked = false;
    const bool recorded = op.reply && !*op.reply && op.reply->error().recorded;
    if (op.good() || recorded) ++place.sequence;
  };
  if (const auto* barrier = std::get_if<Barrier>(&op.request)) met(barriers_, *barrier);
  if (const auto* exchange = std::get_if<Exchange>(&op.request)) met(exchanges_, *exchange);
  if (std::holds_alternative<Watch>(op.request)) {
    watching_ = false;
    if (op.good()) {
      const Changes& changes = std::get<Changes>(**op.reply);
      watch_.from = changes.next;
      watch_.skip = changes.skip;
    } else if (op.code() == Code::compacted) {
      watch_.from = 0;
      watch_.skip = 0;
    }
  }
  if (op.good() && std::holds_alternative<Get>(op.request)) {
    last_read_ = std::get<Value>(**op.reply).value;
  }
}

}  // namespace c10dd::sim
