// SPDX-License-Identifier: Apache-2.0
// Implements the functions of c10dd.h for transactions and watches.
#include <algorithm>

#include "client/c/block.h"
#include "client/c/guard.h"
#include "client/c/objects.h"
#include "protocol/format.h"

namespace c10dd::c {
namespace {

void add_condition(Transaction& to, const c10dd_condition& from) {
  std::string key(bytes_of(from.key, "the key of a condition"));
  switch (from.kind) {
    case C10DD_IF_EXISTS:
      to.if_exists(std::move(key));
      return;
    case C10DD_IF_ABSENT:
      to.if_absent(std::move(key));
      return;
    case C10DD_IF_VALUE:
      to.if_value(std::move(key), std::string(bytes_of(from.value, "the value of a condition")));
      return;
    case C10DD_IF_REVISION:
      to.if_revision(std::move(key), from.revision);
      return;
    default:
      throw InvalidArgument(
          format("the kind of a condition is {}: give a value of c10dd_condition_kind, 0 to {}",
                 from.kind, static_cast<int>(C10DD_IF_REVISION)));
  }
}

void add_action(Transaction& to, const c10dd_action& from) {
  std::string key(bytes_of(from.key, "the key of an action"));
  std::string value(bytes_of(from.value, "the value of an action"));
  switch (from.kind) {
    case C10DD_DO_SET:
      to.set(std::move(key), std::move(value), {Duration(from.ttl_ns), from.ephemeral != 0});
      return;
    case C10DD_DO_REMOVE:
      to.remove(std::move(key));
      return;
    case C10DD_DO_ADD:
      to.add(std::move(key), from.delta);
      return;
    case C10DD_DO_APPEND:
      to.append(std::move(key), std::move(value));
      return;
    case C10DD_DO_PUSH:
      to.push(std::move(key), std::move(value));
      return;
    default:
      throw InvalidArgument(
          format("the kind of an action is {}: give a value of c10dd_action_kind, 0 to {}",
                 from.kind, static_cast<int>(C10DD_DO_PUSH)));
  }
}

constexpr Duration kWatchTimeout = std::chrono::seconds(300);

c10dd_changes copy(const WatchBatch& batch) {
  if (batch.changes.empty()) return {nullptr, 0, batch.next};
  Block block;
  auto* const items = block.array<c10dd_change>(batch.changes.size());
  for (std::size_t i = 0; i < batch.changes.size(); ++i) {
    const KeyChange& change = batch.changes[i];
    items[i] = {change.revision, change.removed ? 1 : 0, block.view(change.key),
                block.view(change.value)};
  }
  return {block.release(items), batch.changes.size(), batch.next};
}

}  // namespace

WatchBatch WatchObject::next(Duration timeout) {
  const std::unique_lock one(busy, std::try_to_lock);
  if (!one) {
    throw InvalidArgument(
        "another thread already waits for changes of this watch: use one thread at a time");
  }
  return watch.next(timeout);
}

extern "C" {

c10dd_code c10dd_transact(c10dd_client* client, const c10dd_condition* conditions,
                          size_t condition_count, const c10dd_action* actions, size_t action_count,
                          const c10dd_call* call, c10dd_transaction_result* result,
                          c10dd_error* error) {
  return guarded(error, [&] {
    require(result, "the output pointer for the result");
    if (condition_count != 0) require(conditions, "the conditions");
    if (action_count != 0) require(actions, "the actions");
    const auto object = handles().find<ClientObject>(client);
    const Call scope(call);
    Transaction transaction;
    for (size_t i = 0; i < condition_count; ++i) add_condition(transaction, conditions[i]);
    for (size_t i = 0; i < action_count; ++i) add_action(transaction, actions[i]);
    const TransactionResult done = object->client->store()->transact(transaction);
    *result = {done.applied ? 1 : 0,
               done.failed,
               done.revision,
               std::min<std::size_t>(done.sums.size(), C10DD_TRANSACTION_SUMS),
               {}};
    std::copy_n(done.sums.begin(), result->sum_count, result->sums);
  });
}

c10dd_code c10dd_watch_open(c10dd_client* client, c10dd_view key, int is_prefix, uint64_t from,
                            const c10dd_call* call, c10dd_watch** watch, c10dd_error* error) {
  return guarded(error, [&] {
    require(watch, "the output pointer for the watch");
    const auto object = handles().find<ClientObject>(client);
    const Call scope(call);
    const std::string name(bytes_of(key, "the key"));
    const std::shared_ptr<JobStore> store = object->client->store();
    *watch = static_cast<c10dd_watch*>(handles().add(std::make_shared<WatchObject>(
        is_prefix != 0 ? store->watch_prefix(name, from) : store->watch(name, from))));
  });
}

c10dd_code c10dd_watch_next(c10dd_watch* watch, const c10dd_call* call, c10dd_changes* changes,
                            c10dd_error* error) {
  return guarded(error, [&] {
    require(changes, "the output pointer for the changes");
    const auto object = handles().find<WatchObject>(watch);
    const Call scope(call);
    *changes = copy(object->next(scope.timeout(kWatchTimeout)));
  });
}

c10dd_code c10dd_watch_close(c10dd_watch* watch, c10dd_error* error) {
  return guarded(error, [&] { handles().take<WatchObject>(watch)->close(); });
}
}

}  // namespace c10dd::c
