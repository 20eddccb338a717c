// SPDX-License-Identifier: Apache-2.0
// Sends one request for each operation; the daemon decides and checks everything.
#include "client/stores/daemon_store.h"

#include <iterator>
#include <utility>

#include "client/internal/throw_failure.h"
#include "client/stores/key_watch.h"

namespace c10dd::client {
namespace {

Condition condition(const Transaction::Condition& from) {
  Condition to;
  switch (from.kind) {
    case Transaction::Condition::Kind::exists:
      to.kind = Condition::Kind::exists;
      break;
    case Transaction::Condition::Kind::absent:
      to.kind = Condition::Kind::absent;
      break;
    case Transaction::Condition::Kind::value_is:
      to.kind = Condition::Kind::value_is;
      break;
    case Transaction::Condition::Kind::revision_is:
      to.kind = Condition::Kind::revision_is;
      break;
  }
  to.key = from.key;
  to.value = from.value;
  to.revision = from.revision;
  return to;
}

Action action(const Transaction::Action& from) {
  Action to;
  switch (from.kind) {
    case Transaction::Action::Kind::set:
      to.kind = Action::Kind::set;
      break;
    case Transaction::Action::Kind::remove:
      to.kind = Action::Kind::remove;
      break;
    case Transaction::Action::Kind::add:
      to.kind = Action::Kind::add;
      break;
    case Transaction::Action::Kind::append:
      to.kind = Action::Kind::append;
      break;
    case Transaction::Action::Kind::push:
      to.kind = Action::Kind::push;
      break;
  }
  to.key = from.key;
  to.value = from.value;
  to.delta = from.delta;
  to.ttl = from.options.ttl;
  to.ephemeral = from.options.ephemeral;
  return to;
}

class DaemonStore final : public JobStore {
 public:
  DaemonStore(std::shared_ptr<Connection> connection, Duration limit)
      : connection_(std::move(connection)), limit_(limit) {
    set_default_timeout(limit);
  }

  void set(const std::string& key, std::string_view value) override {
    set(key, value, SetOptions{});
  }
  std::uint64_t set(const std::string& key, std::string_view value,
                    const SetOptions& options) override {
    return ask(Set{key, Bytes(value), options.ttl, options.ephemeral}).revision;
  }
  std::string get(const std::string& key, Timeout timeout) override {
    return ask(Get{key, timeout}).value;
  }
  Entry entry(const std::string& key, Timeout timeout) override {
    Value got = ask(Get{key, timeout});
    return {std::move(got.value), got.revision};
  }
  void wait(const std::vector<std::string>& keys, Timeout timeout) override {
    ask(Wait{keys, timeout});
  }
  bool check(const std::vector<std::string>& keys) override { return ask(Check{keys}).all; }
  std::int64_t add(const std::string& key, std::int64_t delta) override {
    return ask(Add{key, delta}).value;
  }
  std::uint64_t append(const std::string& key, std::string_view value) override {
    return ask(Append{key, Bytes(value)}).bytes;
  }
  std::string compare_set(const std::string& key, const std::string& expected,
                          const std::string& desired) override {
    Compared compared = ask(CompareSet{key, expected, desired});
    if (compared.swapped) return desired;
    if (!compared.exists) return expected;  // as c10d does
    return std::move(compared.current);
  }
  bool remove(const std::string& key) override { return ask(Remove{key}).existed; }
  std::uint64_t remove_prefix(const std::string& prefix) override {
    return ask(RemovePrefix{prefix}).count;
  }
  std::vector<std::string> multi_get(const std::vector<std::string>& keys,
                                     Timeout timeout) override {
    return ask(MultiGet{keys, timeout}).values;
  }
  void multi_set(const std::vector<std::string>& keys,
                 const std::vector<std::string>& values) override {
    ask(MultiSet{keys, values});
  }
  std::vector<std::string> list(const std::string& prefix) override {
    return list_keys(prefix).keys;
  }
  KeyList list_keys(const std::string& prefix) override {
    KeyPage page = ask(List{prefix, {}, 0});
    KeyList list{std::move(page.keys), page.revision};
    // Each further request asks for the keys after the last key received so far. The list keeps the
    // revision of the first page.
    while (page.more && !list.keys.empty()) {
      page = ask(List{prefix, list.keys.back(), 0});
      std::move(page.keys.begin(), page.keys.end(), std::back_inserter(list.keys));
    }
    return list;
  }
  std::uint64_t count(const std::string& prefix) override { return ask(Count{prefix}).count; }
  std::uint64_t queue_push(const std::string& key, std::string_view value) override {
    return ask(QueuePush{key, Bytes(value)}).count;
  }
  std::string queue_pop(const std::string& key, Timeout timeout) override {
    return ask(QueuePop{key, timeout}).value;
  }
  std::uint64_t queue_length(const std::string& key) override {
    return ask(QueueLength{key}).count;
  }
  TransactionResult transact(const Transaction& transaction) override {
    Transact request;
    for (const auto& one : transaction.conditions()) request.conditions.push_back(condition(one));
    for (const auto& one : transaction.actions()) request.actions.push_back(action(one));
    Transacted done = ask(std::move(request));
    return {done.applied, done.failed, done.revision, std::move(done.sums)};
  }
  KeyWatch watch(const std::string& key, std::uint64_t from) override {
    return watch_from(key, false, from);
  }
  KeyWatch watch_prefix(const std::string& prefix, std::uint64_t from) override {
    return watch_from(prefix, true, from);
  }

 private:
  template <class Op>
  typename Op::Body ask(Op request) {
    return expect<typename Op::Body>(connection_->call(std::move(request), limit_));
  }
  KeyWatch watch_from(const std::string& key, bool prefix, std::uint64_t from) {
    Watch watch;
    watch.key = key;
    watch.prefix = prefix;
    watch.from = from;
    return KeyWatch(std::make_shared<KeyWatch::State>(connection_, limit_, std::move(watch)));
  }

  std::shared_ptr<Connection> connection_;
  Duration limit_;
};

}  // namespace

std::shared_ptr<JobStore> make_daemon_store(std::shared_ptr<Connection> connection,
                                            Duration limit) {
  return std::make_shared<DaemonStore>(std::move(connection), limit);
}

}  // namespace c10dd::client
