// SPDX-License-Identifier: Apache-2.0
// Keys: one on(...) per operation. Every change of a key passes put() or remove(), which write the
// row, remember the change for watches and wake who waits for it.
#include "daemon/core/counter.h"
#include "daemon/core/job_step.h"
#include "daemon/core/planted.h"
#include "protocol/fields.h"

namespace c10dd::core {
namespace {

/// A row as most keys have it: without a life of its own.
struct PlainKeyRow {
  Revision revision = 0;
  Bytes value;
};
BOOST_DESCRIBE_STRUCT(PlainKeyRow, (), (revision, value))

Bytes value_of_row(Revision revision, const Bytes& value, const Life& life) {
  if (life.endless()) return wire::encode(PlainKeyRow{revision, value});
  return wire::encode(KeyRow{revision, value, life.ttl, life.owner});
}

}  // namespace

// ---- changes -----------------------------------------------------------------------------------

/// Without a life the key keeps the one that it has.
void Job::put(Step& step, const Bytes& key, Bytes value, const std::optional<Life>& life) {
  if (life) lifetimes_.put(key, *life, step.now);
  step.out.rows.push_back(
      {Row::Kind::put, 'k' + key, value_of_row(step.next, value, lifetimes_.find(key))});
  if (!pending_.empty()) fire(step, key_token(key));
  told(step, {step.next, false, key, value});
  keys_.put(key, std::move(value), step.next);
  step.observe(step.next);
}

bool Job::remove(Step& step, const Bytes& key) {
  if (!keys_.erase(key, step.next)) return false;
  step.out.rows.push_back({Row::Kind::erase, 'k' + key, {}});
  lifetimes_.erase(key);
  told(step, {step.next, true, key, {}});
  return true;
}

/// A token came true. What nobody waits for is not kept: a step may change a million keys.
void Job::fire(Step& step, Bytes token) {
  if (pending_.waits_for(token)) step.fired.push_back(std::move(token));
}

/// Remembers a change and wakes its watches.
void Job::told(Step& step, Change change) {
  if (!pending_.empty()) {
    fire(step, change_token(change.key));
    std::vector<Bytes> prefixes;
    pending_.prefix_tokens(change.key, prefixes);
    for (Bytes& token : prefixes) {
      if (step.prefixes.insert(token).second) step.fired.push_back(std::move(token));
    }
  }
  history_.add(std::move(change), step.out.rows);
}

// ---- writes ------------------------------------------------------------------------------------

Job::Maybe Job::on(Step& step, const Set& set) {
  if (Result<void> good = keys_.check_put(set.key, set.value.size()); !good) return good.error();
  if (Result<void> good = check_ttl(set.ttl); !good) return good.error();
  put(step, set.key, set.value, Life{set.ttl, set.ephemeral ? step.from.session : SessionId{}});
  return answer(Written{step.next});
}

Job::Maybe Job::on(Step& step, const MultiSet& set) {
  if (set.keys.size() != set.values.size() || set.keys.size() > limits::kKeysPerRequest) {
    return refuse(Code::invalid_argument, "multi_set: " + std::to_string(set.keys.size()) +
                                              " keys and " + std::to_string(set.values.size()) +
                                              " values, limit " +
                                              std::to_string(limits::kKeysPerRequest) + " of each");
  }
  KeySpace::Growth growth;
  for (std::size_t i = 0; i < set.keys.size(); ++i) {
    Result<void> good = keys_.check_put(set.keys[i], set.values[i].size(), growth);
    if (!good) return good.error();
  }
  for (std::size_t i = 0; i < set.keys.size(); ++i) put(step, set.keys[i], set.values[i], Life{});
  step.observe(revision_);
  return answer(Written{set.keys.empty() ? revision_ : step.next});
}

Job::Maybe Job::on(Step& step, const Add& add) {
  const KeySpace::Entry* entry = keys_.find(add.key);
  if (entry != nullptr) step.observe(entry->revision);
  const Result<std::int64_t> sum =
      add_to(add.key, entry == nullptr ? nullptr : &entry->value, add.delta);
  if (!sum) return sum.error();
  Bytes text = std::to_string(*sum);
  if (Result<void> good = keys_.check_put(add.key, text.size()); !good) return good.error();
  put(step, add.key, std::move(text), std::nullopt);
  return answer(Counter{*sum});
}

Job::Maybe Job::on(Step& step, const Append& append) {
  const KeySpace::Entry* entry = keys_.find(append.key);
  const std::size_t size = append.value.size() + (entry == nullptr ? 0 : entry->value.size());
  if (entry != nullptr) step.observe(entry->revision);
  if (Result<void> good = keys_.check_put(append.key, size); !good) return good.error();
  Bytes value;
  value.reserve(size);
  if (entry != nullptr) value = entry->value;
  put(step, append.key, std::move(value.append(append.value)), std::nullopt);
  return answer(Appended{size});
}

Job::Maybe Job::on(Step& step, const CompareSet& compare) {
  if (Result<void> good = check_key(compare.key); !good) return good.error();
  const KeySpace::Entry* entry = keys_.find(compare.key);
  const bool equal = entry != nullptr ? entry->value == compare.expected : compare.expected.empty();
  if (!equal) {
    step.observe(keys_.observed(compare.key));
    return answer(Compared{false, entry != nullptr, entry != nullptr ? entry->value : Bytes()});
  }
  Result<void> good = keys_.check_put(compare.key, compare.desired.size());
  if (!good) return good.error();
  put(step, compare.key, compare.desired, Life{});
  return answer(Compared{true, true, {}});
}

Job::Maybe Job::on(Step& step, const Remove& request) {
  if (Result<void> good = check_key(request.key); !good) return good.error();
  const bool existed = remove(step, request.key);
  step.observe(keys_.observed(request.key));
  return answer(Removed{existed});
}

Job::Maybe Job::on(Step& step, const RemovePrefix& request) {
  if (request.prefix.size() > limits::kKeyBytes) {
    return refuse(Code::too_large, "prefix too long: " + std::to_string(request.prefix.size()) +
                                       " bytes, limit " + std::to_string(limits::kKeyBytes));
  }
  const std::vector<Bytes> keys = keys_.erase_prefix(request.prefix, step.next);
  if (!keys.empty() && !planted(Planted::prefix_row_lost)) {  // one row does for all
    step.out.rows.push_back({Row::Kind::erase_prefix, 'k' + request.prefix, {}});
  }
  for (const Bytes& key : keys) {
    lifetimes_.erase(key);
    told(step, {step.next, true, key, {}});
  }
  step.observe(keys.empty() ? revision_ : step.next);
  return answer(Counted{keys.size()});
}

// ---- reads -------------------------------------------------------------------------------------

Job::Maybe Job::on(Step& step, const Check& check) {
  if (check.keys.size() > limits::kKeysPerRequest) {
    return refuse(Code::too_large, "check: " + std::to_string(check.keys.size()) + " keys, limit " +
                                       std::to_string(limits::kKeysPerRequest));
  }
  bool all = true;
  for (const Bytes& key : check.keys) {
    if (Result<void> good = check_key(key); !good) return good.error();
    step.observe(keys_.observed(key));
    if (keys_.find(key) != nullptr) continue;
    all = all && queues_.length(key) > 0;
    step.observe(queues_.observed());
  }
  return answer(Checked{all});
}

Job::Maybe Job::on(Step& step, const List& list) {
  const std::size_t limit = list.limit == 0
                                ? limits::kListPageKeys
                                : std::min<std::size_t>(list.limit, limits::kListPageKeys);
  KeyPage page;
  page.keys = keys_.list(list.prefix, list.start_after, limit, page.more);
  page.revision = revision_;
  step.observe(revision_);
  return answer(std::move(page));
}

Job::Maybe Job::on(Step& step, const Count& count) {
  step.observe(revision_);
  return answer(Counted{keys_.count(count.prefix)});
}

}  // namespace c10dd::core
