// SPDX-License-Identifier: Apache-2.0
// All texts are base64, so nothing in a request needs to be escaped.
#include "client/stores/etcd/requests.h"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <utility>

#include "client/stores/checks.h"
#include "protocol/base64.h"
#include "protocol/format.h"
#include "protocol/parse.h"

namespace c10dd::client::etcd {
namespace {

namespace json = boost::json;

std::string list_of(const std::vector<std::string>& objects) {
  std::string list = "[";
  for (const std::string& object : objects) {
    if (list.size() > 1) list += ',';
    list += object;
  }
  return list + ']';
}

/// Returns the names and values of a range, without the braces.
std::string fields_of(const Range& keys) {
  std::string fields = "\"key\":\"" + base64_encode(keys.first) + '"';
  if (!keys.end.empty()) fields += ",\"range_end\":\"" + base64_encode(keys.end) + '"';
  return fields;
}

const json::value* find(const json::value& in, std::string_view name) {
  const json::object* object = in.if_object();
  return object != nullptr ? object->if_contains(name) : nullptr;
}

const json::array& array_at(const json::value& in, std::string_view name) {
  static const json::array none;
  const json::value* found = find(in, name);
  return found != nullptr && found->is_array() ? found->get_array() : none;
}

/// Returns an integer, which the gateway writes as a text.
std::int64_t number_at(const json::value& in, std::string_view name) {
  const json::value* found = find(in, name);
  if (found == nullptr || !found->is_string()) return 0;
  return parse_number<std::int64_t>(std::string_view(found->get_string())).value_or(0);
}

Result<std::string> bytes_at(const json::value& in, std::string_view name) {
  const json::value* found = find(in, name);
  if (found == nullptr) return std::string();
  auto bytes = found->is_string() ? base64_decode(std::string_view(found->get_string()))
                                  : std::optional<std::string>();
  if (!bytes) return failure(Code::malformed, "etcd: the field {} is not base64", name);
  return std::move(*bytes);
}

Result<Entry> entry_of(const json::value& kv) {
  Result<std::string> key = bytes_at(kv, "key");
  if (!key) return key.error();
  Result<std::string> value = bytes_at(kv, "value");
  if (!value) return value.error();
  return Entry{std::move(*key), std::move(*value), number_at(kv, "mod_revision")};
}

}  // namespace

Range with_prefix(const std::string& prefix) { return {prefix, end_of_prefix(prefix)}; }

// ---- requests ----------------------------------------------------------------------------------

std::string range(const Range& keys, Content content, std::int64_t revision) {
  std::string request = "{" + fields_of(keys);
  if (content == Content::keys) request += ",\"keys_only\":true";
  if (content == Content::number) request += ",\"count_only\":true";
  if (content == Content::oldest) {
    request += ",\"limit\":\"1\",\"sort_order\":\"ASCEND\",\"sort_target\":\"CREATE\"";
  }
  if (revision != 0) request += format(",\"revision\":\"{}\"", revision);
  return request + '}';
}

std::string put(std::string_view key, std::string_view value) {
  return "{\"key\":\"" + base64_encode(key) + "\",\"value\":\"" + base64_encode(value) + "\"}";
}

std::string remove(const Range& keys) { return "{" + fields_of(keys) + '}'; }

std::string watch(const Range& keys, std::int64_t from) {
  return "{\"create_request\":{" + fields_of(keys) +
         format(",\"start_revision\":\"{}\",\"filters\":[\"NODELETE\"]}}}}", from);
}

std::string range_op(const Range& keys, Content content, std::int64_t revision) {
  return "{\"request_range\":" + range(keys, content, revision) + '}';
}

std::string put_op(std::string_view key, std::string_view value) {
  return "{\"request_put\":" + put(key, value) + '}';
}

std::string remove_op(std::string_view key) {
  return "{\"request_delete_range\":" + remove({std::string(key)}) + '}';
}

std::string changed_last_at(std::string_view key, std::int64_t revision) {
  return format(R"({{"key":"{}","target":"MOD","result":"EQUAL","mod_revision":"{}"}})",
                base64_encode(key), revision);
}

std::string transaction(const std::vector<std::string>& conditions,
                        const std::vector<std::string>& operations,
                        const std::vector<std::string>& otherwise) {
  return "{\"compare\":" + list_of(conditions) + ",\"success\":" + list_of(operations) +
         ",\"failure\":" + list_of(otherwise) + '}';
}

// ---- replies -----------------------------------------------------------------------------------

Result<Entries> entries_of(const json::value& range_reply) {
  Entries entries;
  entries.number = static_cast<std::uint64_t>(number_at(range_reply, "count"));
  for (const json::value& kv : array_at(range_reply, "kvs")) {
    Result<Entry> entry = entry_of(kv);
    if (!entry) return entry.error();
    entries.list.push_back(std::move(*entry));
  }
  return entries;
}

Result<std::vector<Entries>> ranges_of(const json::value& transaction_reply) {
  std::vector<Entries> all;
  for (const json::value& reply : array_at(transaction_reply, "responses")) {
    const json::value* range_reply = find(reply, "response_range");
    if (range_reply == nullptr) continue;
    Result<Entries> entries = entries_of(*range_reply);
    if (!entries) return entries.error();
    all.push_back(std::move(*entries));
  }
  return all;
}

bool succeeded(const json::value& transaction_reply) {
  const json::value* found = find(transaction_reply, "succeeded");
  return found != nullptr && found->is_bool() && found->get_bool();
}

std::int64_t revision_of(const json::value& reply) {
  const json::value* header = find(reply, "header");
  return header != nullptr ? number_at(*header, "revision") : 0;
}

std::uint64_t removed_by(const json::value& reply) {
  return static_cast<std::uint64_t>(number_at(reply, "deleted"));
}

Result<std::vector<std::string>> put_in(const json::value& watch_message) {
  if (find(watch_message, "canceled") != nullptr) {
    return failure(Code::unavailable, "etcd has ended the watch");
  }
  std::vector<std::string> keys;
  for (const json::value& event : array_at(watch_message, "events")) {
    const json::value* kv = find(event, "kv");
    if (kv == nullptr) continue;
    Result<std::string> key = bytes_at(*kv, "key");
    if (!key) return key.error();
    keys.push_back(std::move(*key));
  }
  return keys;
}

}  // namespace c10dd::client::etcd
