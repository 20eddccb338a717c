// SPDX-License-Identifier: Apache-2.0
// Checks the arguments of each call, makes it on the server, and throws its failure.
#include "client/stores/remote_store.h"

#include <algorithm>
#include <utility>

#include "client/internal/fork_guard.h"
#include "client/internal/throw_failure.h"
#include "client/stores/checks.h"
#include "protocol/limits.h"
#include "protocol/wording.h"

namespace c10dd::client {
namespace {

template <class T>
T expect_value(Result<T> result) {
  if (!result) throw_failure(result.error());
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

class RemoteStore final : public Store {
 public:
  explicit RemoteStore(std::unique_ptr<StoreServer> server) : server_(std::move(server)) {}

  void set(const std::string& key, std::string_view value) override {
    check_key(key);
    check_value(key, value.size());
    expect_value(server().set({key}, {std::string(value)}, no_wait()));
  }
  std::string get(const std::string& key, Timeout timeout) override {
    return std::move(multi_get({key}, timeout).front());
  }
  void wait(const std::vector<std::string>& keys, Timeout timeout) override {
    check_keys("wait", keys);
    const Found found = expect_value(server().wait(keys, wait_for(timeout)));
    if (found.missing.empty()) return;
    throw_failure(missing_keys(found.missing, keys.size(), std::max(timeout, Timeout::zero())));
  }
  bool check(const std::vector<std::string>& keys) override {
    check_count("check", keys.size());
    return expect_value(server().wait(keys, no_wait())).missing.empty();
  }
  std::int64_t add(const std::string& key, std::int64_t delta) override {
    check_key(key);
    return expect_value(server().add(key, delta, no_wait()));
  }
  std::uint64_t append(const std::string& key, std::string_view value) override {
    check_key(key);
    check_value(key, value.size());
    return expect_value(server().append(key, value, no_wait()));
  }
  std::string compare_set(const std::string& key, const std::string& expected,
                          const std::string& desired) override {
    check_key(key);
    check_value(key, desired.size());
    return expect_value(server().compare_set(key, expected, desired, no_wait()));
  }
  bool remove(const std::string& key) override {
    check_key(key);
    return expect_value(server().remove(key, no_wait()));
  }
  std::uint64_t remove_prefix(const std::string& prefix) override {
    return expect_value(server().remove_prefix(prefix, no_wait()));
  }
  std::vector<std::string> multi_get(const std::vector<std::string>& keys,
                                     Timeout timeout) override {
    check_keys("multi_get", keys);
    Found found = expect_value(server().get(keys, wait_for(timeout)));
    if (found.missing.empty()) return std::move(found.values);
    if (timeout > Timeout::zero()) {
      throw_failure(missing_keys(found.missing, keys.size(), timeout));
    }
    throw_failure(keys_not_found(found.missing, keys.size()));
  }
  void multi_set(const std::vector<std::string>& keys,
                 const std::vector<std::string>& values) override {
    check_pairs(keys, values);
    expect_value(server().set(keys, values, no_wait()));
  }
  std::vector<std::string> list(const std::string& prefix) override {
    return expect_value(server().list(prefix, no_wait()));
  }
  std::uint64_t count(const std::string& prefix) override {
    return expect_value(server().count(prefix, no_wait()));
  }
  std::uint64_t queue_push(const std::string& key, std::string_view value) override {
    check_key(key);
    check_value(key, value.size());
    return expect_value(server().queue_push(key, value, no_wait()));
  }
  std::string queue_pop(const std::string& key, Timeout timeout) override {
    check_key(key);
    auto item = expect_value(server().queue_pop(key, wait_for(timeout)));
    if (!item) throw_failure(queue_is_empty(key, timeout));
    return std::move(*item);
  }
  std::uint64_t queue_length(const std::string& key) override {
    check_key(key);
    return expect_value(server().queue_length(key, no_wait()));
  }

 private:
  StoreServer& server() {
    home_.require("store", "open it again");
    return *server_;
  }
  /// The limit of a call that waits for no key.
  Limit no_wait() const {
    return {Clock::now() + std::min<Timeout>(default_timeout(), limits::kTimeoutMax), false};
  }
  Limit wait_for(Timeout timeout) const {
    if (timeout <= Timeout::zero()) return no_wait();
    return {Clock::now() + std::min<Timeout>(timeout, limits::kTimeoutMax), true};
  }

  const HomeProcess home_;
  const std::unique_ptr<StoreServer> server_;
};

}  // namespace

std::shared_ptr<Store> make_remote_store(std::unique_ptr<StoreServer> server) {
  return owned_by_this_process<Store>(new RemoteStore(std::move(server)));
}

}  // namespace c10dd::client
