// SPDX-License-Identifier: Apache-2.0
// One request per operation; the daemon decides everything.
#include "client/daemon_store.h"

#include <iterator>

#include "client/throw_failure.h"

namespace c10dd::client {
namespace {

class DaemonStore final : public Store {
 public:
  DaemonStore(std::shared_ptr<Connection> connection, Duration limit)
      : connection_(std::move(connection)), limit_(limit) {
    set_default_timeout(limit);
  }

  void set(const std::string& key, std::string_view value) override { ask(Set{key, Bytes(value)}); }
  std::string get(const std::string& key, Timeout timeout) override {
    return ask(Get{key, timeout}).value;
  }
  void wait(const std::vector<std::string>& keys, Timeout timeout) override {
    ask(Wait{keys, timeout});
  }
  bool check(const std::vector<std::string>& keys) override { return ask(Check{keys}).all; }
  std::int64_t add(const std::string& key, std::int64_t delta) override {
    return ask(Add{key, delta}).value;
  }
  std::string compare_set(const std::string& key, const std::string& expected,
                          const std::string& desired) override {
    Compared compared = ask(CompareSet{key, expected, desired});
    if (compared.swapped) return desired;
    if (!compared.exists) return expected;
    return std::move(compared.current);
  }
  bool remove(const std::string& key) override { return ask(Remove{key}).existed; }
  std::vector<std::string> multi_get(const std::vector<std::string>& keys,
                                     Timeout timeout) override {
    return ask(MultiGet{keys, timeout}).values;
  }
  void multi_set(const std::vector<std::string>& keys,
                 const std::vector<std::string>& values) override {
    ask(MultiSet{keys, values});
  }
  std::vector<std::string> list(const std::string& prefix) override {
    KeyPage page = ask(List{prefix, {}, 0});
    std::vector<std::string> keys = std::move(page.keys);
    while (page.more && !keys.empty()) {
      page = ask(List{prefix, keys.back(), 0});
      std::move(page.keys.begin(), page.keys.end(), std::back_inserter(keys));
    }
    return keys;
  }
  std::uint64_t count(const std::string& prefix) override { return ask(Count{prefix}).count; }

 private:
  template <class Op>
  typename Op::Reply ask(Op request) {
    return expect<typename Op::Reply>(connection_->call(std::move(request), limit_));
  }

  std::shared_ptr<Connection> connection_;
  Duration limit_;
};

}  // namespace

std::shared_ptr<Store> make_daemon_store(std::shared_ptr<Connection> connection, Duration limit) {
  return std::make_shared<DaemonStore>(std::move(connection), limit);
}

}  // namespace c10dd::client
