// SPDX-License-Identifier: Apache-2.0
// Implements the functions of c10dd.h for the store of a job, except transactions and watches.
#include "client/c/block.h"
#include "client/c/guard.h"
#include "client/c/objects.h"

namespace c10dd::c {
namespace {

std::string key_of(c10dd_view view) { return std::string(bytes_of(view, "the key")); }

/// Calls body(store, time-out) for the store of a client, as the caller's `call` says.
template <class Body>
c10dd_code with_store(c10dd_client* client, const c10dd_call* call, c10dd_error* error,
                      Body&& body) noexcept {
  return guarded(error, [&] {
    const auto object = handles().find<ClientObject>(client);
    const Call scope(call);
    const std::shared_ptr<JobStore> store = object->client->store();
    body(*store, scope.timeout(store->default_timeout()));
  });
}

template <class T>
void put(T* place, T value) {
  if (place != nullptr) *place = value;
}

}  // namespace
extern "C" {

c10dd_code c10dd_set(c10dd_client* client, c10dd_view key, c10dd_view value,
                     const c10dd_set_options* options, const c10dd_call* call, uint64_t* revision,
                     c10dd_error* error) {
  return with_store(client, call, error, [&](JobStore& store, Duration) {
    const auto from = options_of<c10dd_set_options>(options, C10DD_SET_OPTIONS_INIT, "the options");
    put(revision, store.set(key_of(key), bytes_of(value, "the value"),
                            {Duration(from.ttl_ns), from.ephemeral != 0}));
  });
}

c10dd_code c10dd_get(c10dd_client* client, c10dd_view key, const c10dd_call* call,
                     c10dd_bytes* value, uint64_t* revision, c10dd_error* error) {
  return with_store(client, call, error, [&](JobStore& store, Duration timeout) {
    require(value, "the output pointer for the value");
    const Entry entry = store.entry(key_of(key), timeout);
    *value = copy(entry.value);
    put(revision, entry.revision);
  });
}

c10dd_code c10dd_wait(c10dd_client* client, const c10dd_view* keys, size_t count,
                      const c10dd_call* call, c10dd_error* error) {
  return with_store(client, call, error, [&](JobStore& store, Duration timeout) {
    store.wait(strings_of(keys, count, "the keys"), timeout);
  });
}

c10dd_code c10dd_check(c10dd_client* client, const c10dd_view* keys, size_t count,
                       const c10dd_call* call, int* all, c10dd_error* error) {
  return with_store(client, call, error, [&](JobStore& store, Duration) {
    require(all, "the output pointer for the result");
    *all = store.check(strings_of(keys, count, "the keys")) ? 1 : 0;
  });
}

c10dd_code c10dd_add(c10dd_client* client, c10dd_view key, int64_t delta, const c10dd_call* call,
                     int64_t* sum, c10dd_error* error) {
  return with_store(client, call, error,
                    [&](JobStore& store, Duration) { put(sum, store.add(key_of(key), delta)); });
}

c10dd_code c10dd_append(c10dd_client* client, c10dd_view key, c10dd_view value,
                        const c10dd_call* call, uint64_t* size, c10dd_error* error) {
  return with_store(client, call, error, [&](JobStore& store, Duration) {
    put(size, store.append(key_of(key), bytes_of(value, "the value")));
  });
}

c10dd_code c10dd_compare_set(c10dd_client* client, c10dd_view key, c10dd_view expected,
                             c10dd_view desired, const c10dd_call* call, c10dd_bytes* value,
                             c10dd_error* error) {
  return with_store(client, call, error, [&](JobStore& store, Duration) {
    require(value, "the output pointer for the value");
    *value =
        copy(store.compare_set(key_of(key), std::string(bytes_of(expected, "the expected value")),
                               std::string(bytes_of(desired, "the desired value"))));
  });
}

c10dd_code c10dd_remove(c10dd_client* client, c10dd_view key, const c10dd_call* call, int* existed,
                        c10dd_error* error) {
  return with_store(client, call, error, [&](JobStore& store, Duration) {
    put(existed, store.remove(key_of(key)) ? 1 : 0);
  });
}

c10dd_code c10dd_remove_prefix(c10dd_client* client, c10dd_view prefix, const c10dd_call* call,
                               uint64_t* removed, c10dd_error* error) {
  return with_store(client, call, error, [&](JobStore& store, Duration) {
    put(removed, store.remove_prefix(key_of(prefix)));
  });
}

c10dd_code c10dd_multi_get(c10dd_client* client, const c10dd_view* keys, size_t count,
                           const c10dd_call* call, c10dd_list* values, c10dd_error* error) {
  return with_store(client, call, error, [&](JobStore& store, Duration timeout) {
    require(values, "the output pointer for the values");
    *values = copy(store.multi_get(strings_of(keys, count, "the keys"), timeout));
  });
}

c10dd_code c10dd_multi_set(c10dd_client* client, const c10dd_view* keys, const c10dd_view* values,
                           size_t count, const c10dd_call* call, c10dd_error* error) {
  return with_store(client, call, error, [&](JobStore& store, Duration) {
    store.multi_set(strings_of(keys, count, "the keys"), strings_of(values, count, "the values"));
  });
}

c10dd_code c10dd_list_keys(c10dd_client* client, c10dd_view prefix, const c10dd_call* call,
                           c10dd_list* keys, uint64_t* revision, c10dd_error* error) {
  return with_store(client, call, error, [&](JobStore& store, Duration) {
    require(keys, "the output pointer for the keys");
    const KeyList list = store.list_keys(key_of(prefix));
    *keys = copy(list.keys);
    put(revision, list.revision);
  });
}

c10dd_code c10dd_count(c10dd_client* client, c10dd_view prefix, const c10dd_call* call,
                       uint64_t* count, c10dd_error* error) {
  return with_store(client, call, error, [&](JobStore& store, Duration) {
    require(count, "the output pointer for the number");
    *count = store.count(key_of(prefix));
  });
}

c10dd_code c10dd_queue_push(c10dd_client* client, c10dd_view queue, c10dd_view item,
                            const c10dd_call* call, uint64_t* length, c10dd_error* error) {
  return with_store(client, call, error, [&](JobStore& store, Duration) {
    put(length, store.queue_push(key_of(queue), bytes_of(item, "the item")));
  });
}

c10dd_code c10dd_queue_pop(c10dd_client* client, c10dd_view queue, const c10dd_call* call,
                           c10dd_bytes* item, c10dd_error* error) {
  return with_store(client, call, error, [&](JobStore& store, Duration timeout) {
    require(item, "the output pointer for the item");
    *item = copy(store.queue_pop(key_of(queue), timeout));
  });
}

c10dd_code c10dd_queue_length(c10dd_client* client, c10dd_view queue, const c10dd_call* call,
                              uint64_t* length, c10dd_error* error) {
  return with_store(client, call, error, [&](JobStore& store, Duration) {
    require(length, "the output pointer for the number");
    *length = store.queue_length(key_of(queue));
  });
}
}

}  // namespace c10dd::c
