// SPDX-License-Identifier: Apache-2.0
#include "client/stores/checks.h"

#include "client/internal/throw_failure.h"
#include "protocol/format.h"
#include "protocol/limits.h"
#include "protocol/utf8.h"
#include "protocol/wording.h"

namespace c10dd::client {
namespace {

constexpr std::size_t kKeyTextBytes = 80;  // error texts show at most this much of a key

}  // namespace

void check_key(const std::string& key) {
  if (key.empty()) {
    throw_failure(failure(Code::invalid_argument, "key is empty: give at least one byte"));
  }
  if (key.size() > limits::kKeyBytes) {
    throw_failure(failure(Code::too_large, "key too long: {} bytes, limit {}", key.size(),
                          limits::kKeyBytes));
  }
}

void check_value(const std::string& key, std::size_t bytes) {
  if (bytes > limits::kValueBytes) throw_failure(value_too_large(key, bytes));
}

void check_count(const char* op, std::size_t keys) {
  if (keys <= limits::kKeysPerRequest) return;
  throw_failure(
      failure(Code::too_large, "{}: {} keys, limit {}", op, keys, limits::kKeysPerRequest));
}

void check_keys(const char* op, const std::vector<std::string>& keys) {
  check_count(op, keys.size());
  for (const std::string& key : keys) check_key(key);
}

void check_pairs(const std::vector<std::string>& keys, const std::vector<std::string>& values) {
  if (keys.size() != values.size()) {
    throw_failure(failure(Code::invalid_argument, "multi_set: got {} keys, but {} values",
                          keys.size(), values.size()));
  }
  if (keys.size() > limits::kKeysPerRequest) {
    throw_failure(failure(Code::invalid_argument, "multi_set: too many keys: {}, limit {}",
                          keys.size(), limits::kKeysPerRequest));
  }
  std::size_t bytes = 8;  // size that a request to a daemon would have
  for (std::size_t i = 0; i < keys.size(); ++i) {
    check_key(keys[i]);
    check_value(keys[i], values[i].size());
    bytes += keys[i].size() + values[i].size() + 8;
  }
  if (bytes > limits::kFrameBytes) {
    throw_failure(failure(Code::too_large, "multi_set: request too large: {} bytes, limit {}",
                          bytes, limits::kFrameBytes));
  }
}

std::string end_of_prefix(std::string prefix) {
  while (!prefix.empty() && prefix.back() == '\xff') prefix.pop_back();
  if (prefix.empty()) return prefix;
  prefix.back() = static_cast<char>(static_cast<unsigned char>(prefix.back()) + 1);
  return prefix;
}

Failure value_too_large(const std::string& key, std::size_t bytes) {
  return failure(Code::too_large, "value too large: {} bytes, limit {}, key \"{}\"", bytes,
                 limits::kValueBytes, printable(key, limits::kNameShown));
}

Failure sum_overflows(std::int64_t value, std::int64_t delta) {
  return failure(Code::out_of_range, "add: {} + {} overflows 64 bits; the value is unchanged",
                 value, delta);
}

Failure queue_is_empty(const std::string& key, Store::Timeout timeout) {
  const std::string name = printable(key, kKeyTextBytes);
  if (timeout <= Store::Timeout::zero()) {
    return failure(Code::not_found, "queue \"" + name + "\" is empty");
  }
  return failure(Code::timed_out, "timed out after {}: queue \"{}\" is empty", human(timeout),
                 name);
}

}  // namespace c10dd::client
