// SPDX-License-Identifier: Apache-2.0
// Writes requests for the JSON gateway of etcd, and reads its replies. Does no I/O.
#pragma once

#include <boost/json/object.hpp>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/error.h"

namespace c10dd::client::etcd {

/// The keys from `first` up to `end`, which is not one of them. An empty `end`: only `first`.
struct Range {
  std::string first;
  std::string end = {};
};

/// The keys with a prefix, which must not be empty.
Range with_prefix(const std::string& prefix);

enum class Content { values, keys, number, oldest };  ///< oldest: the key that was made first

// Each returns one JSON object. `revision` 0: the present.
std::string range(const Range& keys, Content content, std::int64_t revision = 0);
std::string put(std::string_view key, std::string_view value);
std::string remove(const Range& keys);
/// Of a watch: all that is put from a revision on.
std::string watch(const Range& keys, std::int64_t from);

// Each returns an operation of a transaction, or its condition.
std::string range_op(const Range& keys, Content content, std::int64_t revision = 0);
std::string put_op(std::string_view key, std::string_view value);
std::string remove_op(std::string_view key);
/// `revision` 0: the key does not exist.
std::string changed_last_at(std::string_view key, std::int64_t revision);

std::string transaction(const std::vector<std::string>& conditions,
                        const std::vector<std::string>& operations,
                        const std::vector<std::string>& otherwise = {});

/// A key with its value, as far as the request has asked for it.
struct Entry {
  std::string key;
  std::string value;
  std::int64_t changed_at = 0;  ///< revision of the last change
};

struct Entries {
  std::vector<Entry> list;
  std::uint64_t number = 0;
};

// These read a reply to a request. They fail with malformed if the reply has another form; the text
// names the field, with what came and what was expected. What is 0, false or empty is missing in a
// reply.

/// To a range: each entry lies in `keys`. All but the number is missing if only that was asked for.
Result<Entries> read_range(const boost::json::object& reply, const Range& keys);
/// To deleterange: how many keys were removed.
Result<std::uint64_t> read_removed(const boost::json::object& reply);

/// What a transaction has done.
struct Transacted {
  bool succeeded = false;
  std::int64_t revision = 0;
  std::vector<Entries> ranges;  ///< what the ranges have found, in their order
};
/// How many operations a transaction has, with those of them that are ranges; `otherwise` if it
/// does not succeed.
struct Expected {
  std::size_t operations = 0;
  std::vector<Range> ranges = {};
  bool may_fail = false;  ///< it has conditions
  std::size_t otherwise = 0;
  std::vector<Range> ranges_otherwise = {};
};
/// To a transaction.
Result<Transacted> read_transaction(const boost::json::object& reply, const Expected& expected);

/// Returns the keys in a message of a watch. Fails with unavailable if the watch has ended.
Result<std::vector<std::string>> read_put_keys(const boost::json::object& watch_message);

}  // namespace c10dd::client::etcd
