// SPDX-License-Identifier: Apache-2.0
#include "daemon/core/job/key_ops.h"

#include "daemon/core/keys/counter.h"
#include "daemon/core/keys/key_row.h"
#include "daemon/core/planted.h"
#include "protocol/fields.h"
#include "protocol/format.h"
#include "protocol/limits.h"

namespace c10dd::core {
namespace {

/// The value of a key's row if the key has no expiry, which is the usual case. See KeyRow.
struct PlainKeyRow {
  Revision revision = 0;
  std::string_view value;
};
BOOST_DESCRIBE_STRUCT(PlainKeyRow, (), (revision, value))

Result<void> check_keys(const Get& get) { return check_key(get.key); }
Result<void> check_keys(const WaitCounter& wait) { return check_key(wait.key); }

template <class Op>
Result<void> check_keys(const Op& op) {
  if (op.keys.size() > limits::kKeysPerRequest) {
    return failure(Code::too_large, "{}: too many keys: {}, limit {}", Op::op.name, op.keys.size(),
                   limits::kKeysPerRequest);
  }
  for (const Bytes& key : op.keys) {
    if (Result<void> good = check_key(key); !good) return good;
  }
  return {};
}

Bytes row_key(std::string_view key) { return RowKey('k').rest(key).take(); }

}  // namespace

// ---- changes -----------------------------------------------------------------------------------

void KeyOps::put(Step& step, const KeySpace::Place& place, std::string_view key, Blob value,
                 const std::optional<Expiry>& new_expiry) {
  if (new_expiry) lifetimes_.put(key, *new_expiry, step.now);
  const Expiry expiry = lifetimes_.find(key);
  if (expiry.endless()) {
    put_row(step.out.rows, 'k', key, PlainKeyRow{step.next, value});
  } else {
    put_row(step.out.rows, 'k', key, KeyRow{step.next, value, expiry.ttl, expiry.owner});
  }
  waits_.key_set(step, key, value);
  if (launch_.key_set(key, value, step.from.session, step.now)) step.may_hang = true;
  const Blob& stored = keys_.put(place, key, value, step.next);
  note(step, {step.next, false, stored, std::move(value)});
  step.observe(step.next);
}

bool KeyOps::remove(Step& step, std::string_view key) {
  if (!keys_.erase(key, step.next)) return false;
  step.out.rows.add(Row::Kind::erase, row_key(key), {});
  lifetimes_.erase(key);
  note(step, {step.next, true, key, {}});
  return true;
}

void KeyOps::note(Step& step, Change&& change) {
  if (change.removed) launch_.key_removed(change.key);
  waits_.key_changed(step, change.key);
  history_.add(std::move(change), step.out.rows);
}

void KeyOps::tick(Step& step) {
  for (const Bytes& key : lifetimes_.due(step.now, limits::kExpiriesPerTick)) remove(step, key);
  for (const Watch& watch : history_.due(step.now, limits::kExpiriesPerTick)) {
    if (waits_.waits_for(watch_token(watch))) {
      history_.watched(watch, step.revision, step.now, step.account(), step.allowance,
                       step.out.rows);
    } else {
      history_.forget(watch, step.out.rows);
    }
  }
}

// ---- writes ------------------------------------------------------------------------------------

OptionalReply KeyOps::on(Step& step, const Set& set) {
  const auto place = keys_.check_put(set.key, set.value.size());
  if (!place) return place.error();
  if (Result<void> good = check_ttl(set.ttl); !good) return good.error();
  put(step, *place, set.key, set.value,
      Expiry{set.ttl, set.ephemeral ? step.from.session : SessionId{}});
  return reply(Written{step.next});
}

OptionalReply KeyOps::on(Step& step, const MultiSet& set) {
  if (set.keys.size() != set.values.size()) {
    return refuse(Code::invalid_argument, format("multi_set: got {} keys, but {} values",
                                                 set.keys.size(), set.values.size()));
  }
  if (set.keys.size() > limits::kKeysPerRequest) {
    return refuse(Code::invalid_argument, format("multi_set: too many keys: {}, limit {}",
                                                 set.keys.size(), limits::kKeysPerRequest));
  }
  KeySpace::PlannedPuts planned_puts;
  for (std::size_t i = 0; i < set.keys.size(); ++i) {
    const auto place = keys_.check_put(set.keys[i], set.values[i].size(), planned_puts);
    if (!place) return place.error();
  }
  for (std::size_t i = 0; i < set.keys.size(); ++i) put(step, set.keys[i], set.values[i], Expiry{});
  step.observe(step.revision);
  return reply(Written{set.keys.empty() ? step.revision : step.next});
}

OptionalReply KeyOps::on(Step& step, const Add& add) {
  const KeySpace::StoredValue* entry = keys_.find(add.key);
  if (entry != nullptr) step.observe(entry->revision);
  const auto before = entry == nullptr ? std::nullopt : std::optional(entry->value.view());
  const Result<std::int64_t> sum =
      add.lenient ? add_leniently(add.key, before, add.delta) : add_to(add.key, before, add.delta);
  if (!sum) return sum.error();
  const Bytes text = std::to_string(*sum);
  const auto place = keys_.check_put(add.key, text.size());
  if (!place) return place.error();
  put(step, *place, add.key, text, std::nullopt);
  return reply(Counter{*sum});
}

OptionalReply KeyOps::on(Step& step, const Append& append) {
  const KeySpace::StoredValue* entry = keys_.find(append.key);
  const std::size_t size = append.value.size() + (entry == nullptr ? 0 : entry->value.size());
  if (entry != nullptr) step.observe(entry->revision);
  const auto place = keys_.check_put(append.key, size);
  if (!place) return place.error();
  Bytes value;
  value.reserve(size);
  if (entry != nullptr) value = entry->value.view();
  put(step, *place, append.key, value.append(append.value), std::nullopt);
  return reply(Appended{size});
}

OptionalReply KeyOps::on(Step& step, const CompareSet& compare) {
  if (Result<void> good = check_key(compare.key); !good) return good.error();
  const KeySpace::StoredValue* entry = keys_.find(compare.key);
  const bool equal = entry != nullptr ? entry->value == compare.expected : compare.expected.empty();
  if (!equal) {
    step.observe(keys_.observed(compare.key, entry));
    return reply(
        Compared{false, entry != nullptr, entry != nullptr ? entry->value.str() : Bytes()});
  }
  const auto place = keys_.check_put(compare.key, compare.desired.size());
  if (!place) return place.error();
  put(step, *place, compare.key, compare.desired, Expiry{});
  return reply(Compared{true, true, {}});
}

OptionalReply KeyOps::on(Step& step, const Remove& request) {
  if (Result<void> good = check_key(request.key); !good) return good.error();
  const bool existed = remove(step, request.key);
  step.observe(keys_.observed(request.key));
  return reply(Removed{existed});
}

OptionalReply KeyOps::on(Step& step, const RemovePrefix& request) {
  if (request.prefix.size() > limits::kKeyBytes) {
    return refuse(Code::too_large, format("prefix too long: {} bytes, limit {}",
                                          request.prefix.size(), limits::kKeyBytes));
  }
  const std::vector<Blob> keys = keys_.erase_prefix(request.prefix, step.next);
  if (!keys.empty() && !planted(Planted::prefix_row_lost)) {  // one row erases all
    step.out.rows.add(Row::Kind::erase_prefix, row_key(request.prefix), {});
  }
  for (const Blob& key : keys) {
    lifetimes_.erase(key);
    note(step, {step.next, true, key, {}});
  }
  step.observe(keys.empty() ? step.revision : step.next);
  return reply(Counted{keys.size()});
}

// ---- reads -------------------------------------------------------------------------------------

OptionalReply KeyOps::on(Step& step, const Check& check) {
  if (check.keys.size() > limits::kKeysPerRequest) {
    return refuse(Code::too_large, format("check: too many keys: {}, limit {}", check.keys.size(),
                                          limits::kKeysPerRequest));
  }
  bool all = true;
  for (const Bytes& key : check.keys) {
    if (Result<void> good = check_key(key); !good) return good.error();
    const KeySpace::StoredValue* entry = keys_.find(key);
    step.observe(keys_.observed(key, entry));
    if (entry != nullptr) continue;
    all = all && queues_.length(key) > 0;
    step.observe(queues_.observed());
  }
  return reply(Checked{all});
}

OptionalReply KeyOps::on(Step& step, const List& list) {
  const std::size_t limit = list.limit == 0
                                ? limits::kListPageKeys
                                : std::min<std::size_t>(list.limit, limits::kListPageKeys);
  KeyPage page;
  page.keys = keys_.list(list.prefix, list.start_after, limit, page.more);
  page.revision = step.revision;
  step.observe(step.revision);
  return reply(std::move(page));
}

OptionalReply KeyOps::on(Step& step, const Count& count) {
  step.observe(step.revision);
  return reply(Counted{keys_.count(count.prefix)});
}

OptionalReply KeyOps::on(Step& step, const ReadValues& read) {
  if (Result<void> good = check_keys(read); !good) return good.error();
  if (read.first > read.keys.size()) {
    return refuse(Code::invalid_argument, format("read_values: first is {}, but there are {} keys",
                                                 read.first, read.keys.size()));
  }
  ValuePage page;
  page.values.reserve(read.keys.size() - read.first);
  std::size_t room = limits::kFrameBytes - 2 * sizeof(std::uint32_t);
  std::size_t next = read.first;
  for (; next < read.keys.size(); ++next) {
    const Bytes& key = read.keys[next];
    const KeySpace::StoredValue* entry = keys_.find(key);
    const std::size_t bytes = sizeof(std::uint32_t) + (entry == nullptr ? 0 : entry->value.size());
    if (bytes > room) break;  // never at the first value, because a frame fits any value
    room -= bytes;
    step.observe(keys_.observed(key, entry));
    page.values.push_back(entry == nullptr ? Blob() : entry->value);
  }
  page.next = static_cast<std::uint32_t>(next);
  return reply(std::move(page));
}

// ---- reads that may wait -----------------------------------------------------------------------

OptionalReply KeyOps::on(Step& step, const Get& get) {
  OptionalReply value = waits_.ready(step, get);  // returned without a move
  if (!value) value = wait_for(step, get);
  return value;
}
OptionalReply KeyOps::on(Step& step, const Wait& wait) {
  OptionalReply done = wait_for(step, wait);
  const bool keeps = step.session->c10d && !step.session->observes;
  if (!keeps || wait.keys.size() != 1 || !done || !*done) return done;
  const Bytes& key = wait.keys.front();
  if (keys_.find(key) == nullptr) {
    reservations_.keep(step.from.session, *step.session, key, step.now);
  }
  return done;
}
OptionalReply KeyOps::on(Step& step, const MultiGet& get) { return wait_for(step, get); }
OptionalReply KeyOps::on(Step& step, const WaitCounter& wait) {
  Session& session = *step.session;
  if (session.c10d && !session.observes && wait.at_least <= std::int64_t{limits::kWorldSize}) {
    session.counts_to = std::max(session.counts_to, wait.at_least);
  }
  return wait_for(step, wait);
}

template <class Op>
OptionalReply KeyOps::wait_for(Step& step, const Op& op) {
  if (Result<void> good = check_keys(op); !good) return good.error();
  OptionalReply done = waits_.ready(step, op);
  if (!done) done = waits_.block(step, op, op.timeout);
  return done;
}

/// If there are changes, replies at once. Otherwise blocks the request until the next change.
OptionalReply KeyOps::on(Step& step, const Watch& asked) {
  if (!asked.prefix || asked.key.size() > limits::kKeyBytes) {
    if (Result<void> good = check_key(asked.key); !good) return good.error();
  }
  Watch watch = asked;
  if (watch.from == 0) watch.from = step.revision + 1;
  const bool from_past = watch.from <= step.revision;
  OptionalReply past = from_past ? waits_.ready(step, watch) : std::nullopt;
  if (past && !*past) return past;
  // Notes the watched key or prefix even if a reply is ready, because the client will watch again.
  history_.watched(watch, step.revision, step.now, step.account(), step.allowance, step.out.rows);
  if (past) return past;
  if (from_past) watch.skip = 0;
  watch.from = std::max(watch.from, step.revision + 1);
  return waits_.block(step, watch, watch.timeout);
}

}  // namespace c10dd::core
