// SPDX-License-Identifier: Apache-2.0
// The model: each operation in as few lines as possible.
#include "tests/sim/model.h"

#include "tests/history/linearize.h"

namespace c10dd::sim {
namespace {

using history::number_of;

template <class Body>
std::optional<Reply> told(Body body) {
  return Reply(ReplyBody(std::move(body)));
}

}  // namespace

std::optional<Reply> Model::apply(const Request& request, const SessionId& session,
                                  Revision revision) {
  const auto find = [&](const Bytes& key) -> Bytes* {
    const auto it = keys.find(key);
    return it == keys.end() ? nullptr : &it->second.value;
  };
  if (const auto* set = std::get_if<Set>(&request)) {
    keys[set->key] = {set->value, revision, set->ttl, set->ephemeral ? session : SessionId{}};
    return told(Written{revision});
  }
  if (const auto* set = std::get_if<MultiSet>(&request)) {
    for (std::size_t i = 0; i < set->keys.size(); ++i)
      keys[set->keys[i]] = {set->values[i], revision, {}, {}};
    return told(Written{revision});
  }
  if (const auto* add = std::get_if<Add>(&request)) {
    const Bytes* const now = find(add->key);
    const auto before = add->lenient ? history::number_at_start(now) : number_of(now);
    if (!before)
      return Reply(failure(add->lenient ? Code::invalid_argument : Code::wrong_type, ""));
    Entry& entry = keys[add->key];  // keeps its life
    entry.value = std::to_string(*before + add->delta);
    entry.revision = revision;
    return told(Counter{*before + add->delta});
  }
  if (const auto* append = std::get_if<Append>(&request)) {
    Entry& entry = keys[append->key];  // likewise
    entry.value += append->value;
    entry.revision = revision;
    return told(Appended{entry.value.size()});
  }
  if (const auto* compare = std::get_if<CompareSet>(&request)) {
    const Bytes* now = find(compare->key);
    if (now != nullptr ? *now != compare->expected : !compare->expected.empty()) {
      return told(Compared{false, now != nullptr, now != nullptr ? *now : Bytes()});
    }
    keys[compare->key] = {compare->desired, revision, {}, {}};
    return told(Compared{true, true, {}});
  }
  if (const auto* remove = std::get_if<Remove>(&request)) {
    return told(Removed{keys.erase(remove->key.str()) > 0});
  }
  if (const auto* remove = std::get_if<RemovePrefix>(&request)) {
    return told(Counted{std::erase_if(
        keys, [&](const auto& entry) { return entry.first.starts_with(remove->prefix); })});
  }
  if (const auto* changes = std::get_if<Transact>(&request)) {
    return transact(*changes, session, revision);
  }
  return std::nullopt;
}

bool Model::holds(const Condition& condition) const {
  const auto it = keys.find(condition.key);
  const bool exists = it != keys.end();
  switch (condition.kind) {
    case Condition::Kind::exists:
      return exists;
    case Condition::Kind::absent:
      return !exists;
    case Condition::Kind::value_is:
      return exists && it->second.value == condition.value;
    case Condition::Kind::revision_is:
      return condition.revision == (exists ? it->second.revision : 0);
  }
  return false;
}

std::optional<Reply> Model::transact(const Transact& request, const SessionId& session,
                                     Revision revision) {
  for (std::size_t i = 0; i < request.conditions.size(); ++i) {
    if (!holds(request.conditions[i])) {
      return told(Transacted{false, static_cast<std::uint32_t>(i), revision, {}});
    }
  }
  const auto before = keys;
  Transacted result{true, 0, revision, {}};
  for (const Action& action : request.actions) {
    std::optional<Reply> done;
    switch (action.kind) {
      case Action::Kind::set:
        done =
            apply(Set{action.key, action.value, action.ttl, action.ephemeral}, session, revision);
        break;
      case Action::Kind::remove:
        done = apply(Remove{action.key}, session, revision);
        break;
      case Action::Kind::add:
        done = apply(Add{action.key, action.delta}, session, revision);
        if (*done) result.sums.push_back(std::get<Counter>(**done).value);
        break;
      case Action::Kind::append:
        done = apply(Append{action.key, action.value}, session, revision);
        break;
      case Action::Kind::push:
        continue;
    }
    if (!*done) {
      keys = before;
      return done;
    }
  }
  return told(std::move(result));
}

}  // namespace c10dd::sim
