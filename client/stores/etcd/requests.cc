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

Failure unexpected(std::string_view field, std::string_view expected) {
  return failure(
      Code::malformed,
      "unexpected reply from etcd: the field {} is not {}; check that the URL leads to an "
      "etcd server, and not to a proxy that changes its replies",
      field, expected);
}

Result<const json::object*> object_at(const json::object& in, std::string_view name) {
  const json::value* found = in.if_contains(name);
  if (found != nullptr && found->is_object()) return &found->get_object();
  return unexpected(name, "an object");
}

/// Returns the objects of a list, which is missing if it is empty.
Result<std::vector<const json::object*>> objects_at(const json::object& in, std::string_view name) {
  std::vector<const json::object*> objects;
  const json::value* found = in.if_contains(name);
  if (found == nullptr) return objects;
  if (!found->is_array()) return unexpected(name, "a list");
  for (const json::value& one : found->get_array()) {
    if (!one.is_object()) return unexpected(name, "a list of objects");
    objects.push_back(&one.get_object());
  }
  return objects;
}

/// Returns an integer, which the gateway writes as a text. None of those that are read is negative.
Result<std::int64_t> number_at(const json::object& in, std::string_view name) {
  const json::value* found = in.if_contains(name);
  if (found == nullptr) return 0;
  const auto number = found->is_string()
                          ? parse_number<std::int64_t>(std::string_view(found->get_string()))
                          : std::optional<std::int64_t>();
  if (number && *number >= 0) return *number;
  return unexpected(name, "a string with an integer from 0 to 9223372036854775807");
}

Result<bool> bool_at(const json::object& in, std::string_view name) {
  const json::value* found = in.if_contains(name);
  if (found == nullptr) return false;
  if (found->is_bool()) return found->get_bool();
  return unexpected(name, "true or false");
}

Result<std::string> bytes_at(const json::object& in, std::string_view name) {
  const json::value* found = in.if_contains(name);
  if (found == nullptr) return std::string();
  auto bytes = found->is_string() ? base64_decode(std::string_view(found->get_string()))
                                  : std::optional<std::string>();
  if (!bytes) return unexpected(name, "base64");
  return std::move(*bytes);
}

/// Every reply has a revision, which is not 0.
Result<std::int64_t> revision_of(const json::object& reply) {
  const auto header = object_at(reply, "header");
  if (!header) return header.error();
  Result<std::int64_t> revision = number_at(**header, "revision");
  if (revision && *revision == 0) return unexpected("revision", "greater than 0");
  return revision;
}

bool lies_in(const Range& keys, std::string_view key) {
  return keys.end.empty() ? key == keys.first : key >= keys.first && key < keys.end;
}

Result<Entry> entry_of(const json::object& kv) {
  Result<std::string> key = bytes_at(kv, "key");
  if (!key) return key.error();
  Result<std::string> value = bytes_at(kv, "value");
  if (!value) return value.error();
  const Result<std::int64_t> changed_at = number_at(kv, "mod_revision");
  if (!changed_at) return changed_at.error();
  return Entry{std::move(*key), std::move(*value), *changed_at};
}

Result<Entries> entries_of(const json::object& range_reply, const Range& keys) {
  const Result<std::int64_t> number = number_at(range_reply, "count");
  if (!number) return number.error();
  const auto kvs = objects_at(range_reply, "kvs");
  if (!kvs) return kvs.error();
  Entries entries{{}, static_cast<std::uint64_t>(*number)};
  for (const json::object* kv : *kvs) {
    Result<Entry> entry = entry_of(*kv);
    if (!entry) return entry.error();
    if (!lies_in(keys, entry->key)) return unexpected("key", "one of the requested keys");
    entries.list.push_back(std::move(*entry));
  }
  return entries;
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

Result<Entries> read_range(const json::object& reply, const Range& keys) {
  if (const auto revision = revision_of(reply); !revision) return revision.error();
  return entries_of(reply, keys);
}

Result<std::uint64_t> read_removed(const json::object& reply) {
  if (const auto revision = revision_of(reply); !revision) return revision.error();
  const Result<std::int64_t> number = number_at(reply, "deleted");
  if (!number) return number.error();
  return static_cast<std::uint64_t>(*number);
}

Result<Transacted> read_transaction(const json::object& reply, const Expected& expected) {
  const Result<std::int64_t> revision = revision_of(reply);
  if (!revision) return revision.error();
  const Result<bool> succeeded = bool_at(reply, "succeeded");
  if (!succeeded) return succeeded.error();
  if (!*succeeded && !expected.may_fail) return unexpected("succeeded", "true");
  const auto responses = objects_at(reply, "responses");
  if (!responses) return responses.error();
  const std::size_t operations = *succeeded ? expected.operations : expected.otherwise;
  if (responses->size() != operations) {
    return unexpected("responses",
                      format("a list of {} replies, but of {}", operations, responses->size()));
  }
  const std::vector<Range>& ranges = *succeeded ? expected.ranges : expected.ranges_otherwise;
  Transacted done{*succeeded, *revision, {}};
  std::size_t found = 0;
  for (const json::object* response : *responses) {
    if (!response->contains("response_range")) continue;
    const auto range_reply = object_at(*response, "response_range");
    if (!range_reply) return range_reply.error();
    if (found++ >= ranges.size()) break;
    Result<Entries> entries = entries_of(**range_reply, ranges[found - 1]);
    if (!entries) return entries.error();
    done.ranges.push_back(std::move(*entries));
  }
  if (found == ranges.size()) return done;
  return unexpected("responses", format("a list with {} ranges", ranges.size()));
}

Result<std::vector<std::string>> read_put_keys(const json::object& watch_message) {
  const Result<bool> canceled = bool_at(watch_message, "canceled");
  if (!canceled) return canceled.error();
  if (*canceled) return failure(Code::unavailable, "etcd has ended the watch");
  const auto events = objects_at(watch_message, "events");
  if (!events) return events.error();
  std::vector<std::string> keys;
  for (const json::object* event : *events) {
    const auto kv = object_at(*event, "kv");
    if (!kv) return kv.error();
    Result<std::string> key = bytes_at(**kv, "key");
    if (!key) return key.error();
    keys.push_back(std::move(*key));
  }
  return keys;
}

}  // namespace c10dd::client::etcd
