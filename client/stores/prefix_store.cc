// SPDX-License-Identifier: Apache-2.0
// A view of another store: it puts a prefix before each key and queue name.
#include "client/internal/throw_failure.h"
#include "client/store.h"

namespace c10dd {
namespace {

class PrefixStore final : public Store {
 public:
  PrefixStore(std::string prefix, std::shared_ptr<Store> below)
      : prefix_(std::move(prefix) + "/"), below_(std::move(below)) {
    set_default_timeout(below_->default_timeout());
  }

  void set(const std::string& key, std::string_view value) override {
    below_->set(inner(key), value);
  }
  std::string get(const std::string& key, Timeout timeout) override {
    return below_->get(inner(key), timeout);
  }
  void wait(const std::vector<std::string>& keys, Timeout timeout) override {
    below_->wait(inner(keys), timeout);
  }
  bool check(const std::vector<std::string>& keys) override {
    std::vector<std::string> names;
    names.reserve(keys.size());
    for (const std::string& key : keys) names.push_back(prefix_ + key);
    return below_->check(names);
  }
  std::int64_t add(const std::string& key, std::int64_t delta) override {
    return below_->add(inner(key), delta);
  }
  std::uint64_t append(const std::string& key, std::string_view value) override {
    return below_->append(inner(key), value);
  }
  std::string compare_set(const std::string& key, const std::string& expected,
                          const std::string& desired) override {
    return below_->compare_set(inner(key), expected, desired);
  }
  bool remove(const std::string& key) override { return below_->remove(inner(key)); }
  std::uint64_t remove_prefix(const std::string& prefix) override {
    return below_->remove_prefix(prefix_ + prefix);
  }
  std::vector<std::string> multi_get(const std::vector<std::string>& keys,
                                     Timeout timeout) override {
    return below_->multi_get(inner(keys), timeout);
  }
  void multi_set(const std::vector<std::string>& keys,
                 const std::vector<std::string>& values) override {
    below_->multi_set(inner(keys), values);
  }
  std::vector<std::string> list(const std::string& prefix) override {
    std::vector<std::string> keys = below_->list(prefix_ + prefix);
    for (std::string& key : keys) key.erase(0, prefix_.size());
    return keys;
  }
  std::uint64_t count(const std::string& prefix) override {
    return below_->count(prefix_ + prefix);
  }
  std::uint64_t queue_push(const std::string& key, std::string_view value) override {
    return below_->queue_push(inner(key), value);
  }
  std::string queue_pop(const std::string& key, Timeout timeout) override {
    return below_->queue_pop(inner(key), timeout);
  }
  std::uint64_t queue_length(const std::string& key) override {
    return below_->queue_length(inner(key));
  }

 private:
  /// Returns the name of a key in the underlying store. Throws InvalidArgument if the key is empty.
  /// The underlying store cannot check this, because it gets the prefix and the key as one name.
  std::string inner(const std::string& key) const {
    if (!key.empty()) return prefix_ + key;
    client::throw_failure(failure(Code::invalid_argument, "key is empty: give at least one byte"));
  }
  std::vector<std::string> inner(const std::vector<std::string>& keys) const {
    std::vector<std::string> names;
    names.reserve(keys.size());
    for (const std::string& key : keys) names.push_back(inner(key));
    return names;
  }

  const std::string prefix_;
  const std::shared_ptr<Store> below_;
};

}  // namespace

std::shared_ptr<Store> make_prefix_store(std::string prefix, std::shared_ptr<Store> store) {
  if (store == nullptr) {
    client::throw_failure(
        failure(Code::invalid_argument, "prefix store: the underlying store is null"));
  }
  return std::make_shared<PrefixStore>(std::move(prefix), std::move(store));
}

}  // namespace c10dd
