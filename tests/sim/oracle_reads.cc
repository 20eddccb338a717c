// SPDX-License-Identifier: Apache-2.0
// A read shows a state that existed, not older than the changes acknowledged before it.
#include <algorithm>

#include "tests/history/linearize.h"
#include "tests/sim/key_log.h"
#include "tests/sim/model.h"
#include "tests/sim/oracles.h"
#include "tests/sim/queue_log.h"

namespace c10dd::sim {
namespace {

/// The keys and queues at one revision.
struct View {
  const KeyLog& log;
  const QueueLog& queues;
  Revision revision = 0;

  const KeyVersion* find(const Bytes& key) const { return log.at(key, revision); }
  bool all(const std::vector<Bytes>& keys) const {
    return std::ranges::all_of(keys, [&](const Bytes& key) { return find(key) != nullptr; });
  }
  std::size_t free(const Bytes& queue) const { return queues.free(queue, revision); }
  /// To check and to wait, an item in a queue is as good as a key.
  bool present(const std::vector<Bytes>& keys) const {
    return std::ranges::all_of(
        keys, [&](const Bytes& key) { return find(key) != nullptr || free(key) > 0; });
  }
};

bool shows(const View& view, const Bytes& key, const Bytes& value, Revision revision) {
  const KeyVersion* entry = view.find(key);
  return entry != nullptr && *entry->value == value && entry->revision == revision;
}

bool holds(const View& view, const Condition& condition) {
  const KeyVersion* entry = view.find(condition.key);
  switch (condition.kind) {
    case Condition::Kind::exists:
      return entry != nullptr;
    case Condition::Kind::absent:
      return entry == nullptr;
    case Condition::Kind::value_is:
      return entry != nullptr && *entry->value == condition.value;
    case Condition::Kind::revision_is:
      return condition.revision == (entry == nullptr ? 0 : entry->revision);
  }
  return false;
}

/// Returns true for a daemon's "timed out" or "not found" about these keys, but not for a time-out
/// of the client.
bool found_missing(const Op& op) {
  if (op.code() == Code::not_found) return true;
  return op.code() == Code::timed_out && !is_of_client(op.reply->error().detail);
}

using Explains = bool (*)(const Op& op, const View& view);

/// Returns how a reply to this operation is looked up; null if it shows no keys.
struct Looks {
  static bool get(const Op& op, const View& view) {
    const auto& request = std::get<Get>(op.request);
    if (!op.good()) return view.find(request.key) == nullptr;
    const auto& value = std::get<Value>(**op.reply);
    return shows(view, request.key, value.value, value.revision);
  }
  static bool multi_get(const Op& op, const View& view) {
    const auto& request = std::get<MultiGet>(op.request);
    if (!op.good()) return !view.all(request.keys);
    const auto& values = std::get<Values>(**op.reply);
    if (values.values.size() != request.keys.size()) return false;
    for (std::size_t i = 0; i < request.keys.size(); ++i) {
      if (!shows(view, request.keys[i], values.values[i], values.revisions[i])) return false;
    }
    return true;
  }
  static bool wait(const Op& op, const View& view) {
    return op.good() == view.present(std::get<Wait>(op.request).keys);
  }
  static bool read_values(const Op& op, const View& view) {
    const auto& request = std::get<ReadValues>(op.request);
    const auto& page = std::get<ValuePage>(**op.reply);
    if (page.next != request.keys.size() || page.values.size() + request.first != page.next) {
      return false;
    }
    for (std::size_t i = 0; i < page.values.size(); ++i) {
      const KeyVersion* entry = view.find(request.keys[request.first + i]);
      if (page.values[i] != (entry == nullptr ? Bytes() : *entry->value)) return false;
    }
    return true;
  }
  static bool wait_counter(const Op& op, const View& view) {
    const auto& request = std::get<WaitCounter>(op.request);
    const KeyVersion* entry = view.find(request.key);
    const auto number = entry == nullptr ? std::nullopt : history::number_at_start(&*entry->value);
    return op.good() == (number && *number >= request.at_least);
  }
  static bool check(const Op& op, const View& view) {
    return std::get<Checked>(**op.reply).all == view.present(std::get<Check>(op.request).keys);
  }
  static bool list(const Op& op, const View& view) {
    return std::get<KeyPage>(**op.reply).keys ==
           view.log.list(std::get<List>(op.request).prefix, view.revision);
  }
  static bool count(const Op& op, const View& view) {
    return std::get<Counted>(**op.reply).count ==
           view.log.list(std::get<Count>(op.request).prefix, view.revision).size();
  }
  static bool length(const Op& op, const View& view) {
    return std::get<Counted>(**op.reply).count == view.free(std::get<QueueLength>(op.request).key);
  }
  static bool compare_set(const Op& op, const View& view) {
    const auto& compared = std::get<Compared>(**op.reply);
    const auto& request = std::get<CompareSet>(op.request);
    const KeyVersion* entry = view.find(request.key);
    const Bytes now = entry == nullptr ? Bytes() : *entry->value;
    const bool equal = entry == nullptr ? request.expected.empty() : now == request.expected;
    return !equal && compared.exists == (entry != nullptr) && compared.current == now;
  }
  static bool remove(const Op& op, const View& view) {
    return view.find(std::get<Remove>(op.request).key) == nullptr;
  }
  static bool remove_prefix(const Op& op, const View& view) {
    return view.log.list(std::get<RemovePrefix>(op.request).prefix, view.revision).empty();
  }
  static bool add(const Op& op, const View& view) {
    const KeyVersion* entry = view.find(std::get<Add>(op.request).key);
    const bool lenient = std::get<Add>(op.request).lenient;
    return entry != nullptr && !(lenient ? history::number_at_start(&*entry->value)
                                         : history::number_of(&*entry->value));
  }
  static bool transact(const Op& op, const View& view) {
    const auto& conditions = std::get<Transact>(op.request).conditions;
    const std::size_t failed = std::get<Transacted>(**op.reply).failed;
    for (std::size_t i = 0; i < failed; ++i) {
      if (!holds(view, conditions[i])) return false;
    }
    return !holds(view, conditions[failed]);
  }
};

Explains look_of(const Op& op) {
  const bool waits = op.good() || found_missing(op);
  if (std::holds_alternative<Get>(op.request)) return waits ? Looks::get : nullptr;
  if (std::holds_alternative<MultiGet>(op.request)) return waits ? Looks::multi_get : nullptr;
  if (std::holds_alternative<Wait>(op.request)) return waits ? Looks::wait : nullptr;
  if (std::holds_alternative<WaitCounter>(op.request)) return waits ? Looks::wait_counter : nullptr;
  if (const auto* add = std::get_if<Add>(&op.request)) {
    const bool refused = op.code() == (add->lenient ? Code::invalid_argument : Code::wrong_type);
    return refused ? Looks::add : nullptr;
  }
  if (!op.good()) return nullptr;
  const ReplyBody& body = **op.reply;
  if (std::holds_alternative<ReadValues>(op.request)) return Looks::read_values;
  if (std::holds_alternative<Check>(op.request)) return Looks::check;
  if (std::holds_alternative<List>(op.request)) return Looks::list;
  if (std::holds_alternative<Count>(op.request)) return Looks::count;
  if (std::holds_alternative<QueueLength>(op.request)) return Looks::length;
  if (std::holds_alternative<CompareSet>(op.request)) {
    return std::get<Compared>(body).swapped ? nullptr : Looks::compare_set;
  }
  if (std::holds_alternative<Remove>(op.request)) {
    return std::get<Removed>(body).existed ? nullptr : Looks::remove;
  }
  if (std::holds_alternative<RemovePrefix>(op.request)) {
    return std::get<Counted>(body).count > 0 ? nullptr : Looks::remove_prefix;
  }
  if (std::holds_alternative<Transact>(op.request)) {
    return std::get<Transacted>(body).applied ? nullptr : Looks::transact;
  }
  return nullptr;
}

/// Returns the waits for single keys into which a wait with Wait::each is taken apart, because its
/// keys need not exist at the same revision. Returns nothing for any other call.
std::vector<Op> parts_of(const Op& op) {
  const auto* wait = std::get_if<Wait>(&op.request);
  if (wait == nullptr || !wait->each || !op.good()) return {};
  std::vector<Op> parts;
  for (const Bytes& key : wait->keys) {
    parts.push_back(op);
    parts.back().request = Wait{{key}, wait->timeout};
  }
  return parts;
}

}  // namespace

OptionalViolation judge_reads(const Records& records) {
  for (const auto& [job, number] : records.jobs) {
    const KeyLog log(records.log(number));
    const QueueLog queues(records.log(number));
    const Windows windows(records, job);
    for (const Op& op : records.ops) {
      const Explains explains = op.job == job ? look_of(op) : nullptr;
      if (explains == nullptr) continue;
      const std::vector<Revision> revisions = windows.revisions(op);
      const auto explained = [&](const Op& part) {
        return std::ranges::any_of(revisions, [&](Revision revision) {
          return explains(part, View{log, queues, revision});
        });
      };
      const std::vector<Op> parts = parts_of(op);
      if (parts.empty() ? explained(op) : std::ranges::all_of(parts, explained)) continue;
      return Violation{"reads", job + ": " + describe(op) + " was true at no revision from " +
                                    std::to_string(revisions.front()) + " to " +
                                    std::to_string(revisions.back())};
    }
  }
  return std::nullopt;
}

}  // namespace c10dd::sim
