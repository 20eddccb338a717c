// SPDX-License-Identifier: Apache-2.0
#include "daemon/core/job/transactions.h"

#include "daemon/core/keys/counter.h"
#include "protocol/format.h"

namespace c10dd::core {

/// Holds the effect of all actions that were planned so far.
struct Transactions::Plan {
  struct Doing {
    Action::Kind kind;
    Bytes value;
    std::optional<Expiry> expiry;  ///< used only by Kind::set; nullopt: the expiry does not change
  };

  const SessionId& session;
  std::map<Bytes, std::optional<Bytes>> values =
      {};  ///< values of the touched keys; nullopt: no such key
  KeySpace::PlannedPuts planned_puts = {};
  std::size_t items = 0;
  std::size_t item_bytes = 0;
  std::size_t value_bytes = 0;    ///< bytes of all puts; two puts of one key both count
  std::vector<Doing> doing = {};  ///< by action
  std::vector<std::int64_t> sums = {};
};

OptionalReply Transactions::on(Step& step, const Transact& transact) {
  if (transact.conditions.size() > limits::kConditions) {
    return failure(Code::too_large, "transact: too many conditions: {}, limit {}",
                   transact.conditions.size(), limits::kConditions);
  }
  if (transact.actions.size() > limits::kActions) {
    return failure(Code::too_large, "transact: too many actions: {}, limit {}",
                   transact.actions.size(), limits::kActions);
  }
  for (const Condition& condition : transact.conditions) {
    if (Result<void> good = check_key(condition.key); !good) return good.error();
    if (condition.kind > Condition::Kind::revision_is) {
      return failure(Code::invalid_argument, "transact: unknown condition kind {}: use 0 to 3",
                     static_cast<int>(condition.kind));
    }
  }
  step.observe(step.revision);  // every reply depends on the current state
  Transacted result;
  for (const Condition& condition : transact.conditions) {
    if (!holds(condition)) {
      result.revision = step.revision;
      return reply(std::move(result));
    }
    ++result.failed;
  }
  Plan plan{.session = step.from.session};
  for (const Action& action : transact.actions) {
    Result<void> good = this->plan(plan, action);
    if (!good) {
      Failure reason = good.error();
      reason.detail = format("transact: action {}: {}", plan.doing.size(), reason.detail);
      return reason;
    }
  }
  for (std::size_t i = 0; i < transact.actions.size(); ++i) {
    Plan::Doing& doing = plan.doing[i];
    const Bytes& key = transact.actions[i].key;
    if (doing.kind == Action::Kind::push) {
      queue_ops_.push(step, key, doing.value);
    } else if (doing.kind == Action::Kind::remove) {
      key_ops_.remove(step, key);
    } else {
      key_ops_.put(step, key, doing.value, doing.expiry);
    }
  }
  const bool changed = !step.out.rows.empty();
  if (changed) step.observe(step.next);
  result.applied = true;
  result.failed = 0;
  result.revision = changed ? step.next : step.revision;
  result.sums = std::move(plan.sums);
  return reply(std::move(result));
}

bool Transactions::holds(const Condition& condition) const {
  const KeySpace::StoredValue* entry = keys_.find(condition.key);
  switch (condition.kind) {
    case Condition::Kind::exists:
      return entry != nullptr;
    case Condition::Kind::absent:
      return entry == nullptr;
    case Condition::Kind::value_is:
      return entry != nullptr && entry->value == condition.value;
    case Condition::Kind::revision_is:
      return (entry == nullptr ? 0 : entry->revision) == condition.revision;
  }
  return false;
}

Result<void> Transactions::plan(Plan& plan, const Action& action) const {
  if (Result<void> good = check_key(action.key); !good) return good;
  if (action.kind == Action::Kind::push) {
    Result<void> good =
        queues_.check_push(action.key, action.value.size(), plan.items, plan.item_bytes);
    if (!good) return good;
    ++plan.items;
    plan.item_bytes += action.key.size() + action.value.size();
    plan.doing.push_back({action.kind, action.value, {}});
    return {};
  }
  const KeySpace::StoredValue* entry = keys_.find(action.key);
  const auto [planned, first] = plan.values.try_emplace(
      action.key, entry == nullptr ? std::nullopt : std::optional(entry->value.str()));
  std::optional<Bytes>& value = planned->second;
  std::optional<Expiry> expiry;
  if (action.kind == Action::Kind::add) {
    const Result<std::int64_t> sum = add_to(action.key, value, action.delta);
    if (!sum) return sum.error();
    if (plan.sums.size() == limits::kSums) {
      return failure(Code::too_large, "too many adds in one transaction, limit {}", limits::kSums);
    }
    plan.sums.push_back(*sum);
    value = std::to_string(*sum);
  } else if (action.kind == Action::Kind::append) {
    if (!value) value.emplace();
    value->append(action.value);
  } else if (action.kind == Action::Kind::set) {
    if (Result<void> good = check_ttl(action.ttl); !good) return good;
    value = action.value;
    expiry = Expiry{action.ttl, action.ephemeral ? plan.session : SessionId{}};
  } else if (action.kind == Action::Kind::remove) {
    value.reset();
    plan.doing.push_back({action.kind, {}, {}});
    return {};
  } else {
    return failure(Code::invalid_argument, "unknown action kind {}: use 0 to 4",
                   static_cast<int>(action.kind));
  }
  const auto place = keys_.check_put(action.key, value->size(), plan.planned_puts);
  if (!place) return place.error();
  plan.value_bytes += value->size();
  if (plan.value_bytes > limits::kTransactBytes) {
    return failure(Code::too_large, "the values written so far have {} bytes, limit {}",
                   plan.value_bytes, limits::kTransactBytes);
  }
  plan.doing.push_back({action.kind, *value, expiry});
  return {};
}

}  // namespace c10dd::core
