// SPDX-License-Identifier: Apache-2.0
// Work on keys.
#include <map>

#include "tests/torture/desk.h"

namespace c10dd::torture {
namespace {

using namespace std::chrono_literals;

/// Returns the value and revision of the key, if it exists.
std::optional<Value> get(Desk& desk, const std::string& key) {
  return desk.make(Get{key, {}}, [&](const Get& r) {
    const Entry entry = desk.store.entry(r.key, 0s);
    return Value{entry.value, entry.revision};
  });
}

void set(Desk& desk, const std::string& key, const std::string& value) {
  desk.make(Set{key, value, {}, false},
            [&](const Set& r) { return Written{desk.store.set(r.key, r.value, {})}; });
}

void remove(Desk& desk, const std::string& key) {
  desk.make(Remove{key}, [&](const Remove& r) { return Removed{desk.store.remove(r.key)}; });
}

void exists(Desk& desk, const std::string& key) {
  desk.make(Check{{key}}, [&](const Check& r) { return Checked{desk.store.check(r.keys)}; });
}

void add(Desk& desk, const std::string& key, std::int64_t delta) {
  desk.make(Add{key, delta}, [&](const Add& r) { return Counter{desk.store.add(r.key, r.delta)}; });
}

void append(Desk& desk, const std::string& key) {
  desk.make(Append{key, desk.unique() + ";"},
            [&](const Append& r) { return Appended{desk.store.append(r.key, r.value)}; });
}

/// Returns the value after the call. It shows whether the call has swapped, as inputs are unique.
std::optional<Bytes> compare_set(Desk& desk, const std::string& key, const Bytes& expected) {
  const CompareSet request{key, expected, desk.unique()};
  const auto told = desk.make(request, [&](const CompareSet& r) {
    const std::string there = desk.store.compare_set(r.key, r.expected, r.desired);
    if (there == r.desired) return Compared{true, true, {}};
    const bool missing = there == r.expected;  // the store's reply if the key is missing
    return Compared{false, !missing, missing ? Bytes() : there};
  });
  if (!told) return std::nullopt;
  return told->swapped ? request.desired.str() : told->current;
}

std::optional<Values> get_many(Desk& desk, const std::vector<std::string>& keys) {
  return desk.make(MultiGet{keys, {}}, [&](const MultiGet& r) {
    return Values{desk.store.multi_get(r.keys, 0s), {}};
  });
}

}  // namespace

void keep_registers(Desk& desk) {
  while (desk.goes_on()) {
    const std::string key = desk.key("reg/" + std::to_string(desk.random.below(4)));
    if (desk.random.chance(60)) {
      set(desk, key, desk.unique());
    } else {
      get(desk, key);
    }
  }
}

void count(Desk& desk) {
  const std::string own = desk.key("own/" + std::to_string(desk.worker));
  while (desk.goes_on()) {
    add(desk, desk.random.chance(50) ? own : desk.key("sum"), 1);
  }
}

void write_logs(Desk& desk) {
  while (desk.goes_on()) append(desk, desk.key("log/" + std::to_string(desk.named / 100)));
}

void extend_chain(Desk& desk) {
  Bytes last;
  while (desk.goes_on()) {
    const auto there = compare_set(desk, desk.key("chain"), last);
    if (!there) return;
    last = *there;
  }
}

void set_groups(Desk& desk) {
  std::vector<std::string> keys;
  for (unsigned i = 0; i < kGroup; ++i) keys.push_back(desk.key("group/" + std::to_string(i)));
  while (desk.goes_on()) {
    if (desk.random.chance(50)) {
      get_many(desk, keys);
      continue;
    }
    desk.make(MultiSet{keys, std::vector<Bytes>(keys.size(), desk.unique())},
              [&](const MultiSet& r) {
                desk.store.multi_set(r.keys, r.values);
                return Written{};  // the store does not say which revision
              });
  }
}

/// Moves an amount between two accounts, if no other transfer was made since the look at `turn`.
void transfer(Desk& desk) {
  const std::string a = desk.key("bank/a");
  const std::string b = desk.key("bank/b");
  const std::string turn = desk.key("bank/turn");
  while (desk.goes_on()) {
    if (desk.random.chance(30)) {
      get_many(desk, {a, b});
      continue;
    }
    const auto look = get(desk, turn);
    if (desk.failed) return;
    const Revision seen = look ? look->revision : 0;
    const auto delta = 1 + static_cast<std::int64_t>(desk.random.below(9));
    Transact request;
    request.conditions = {{Condition::Kind::revision_is, turn, "", seen}};
    request.actions = {{Action::Kind::set, turn, desk.unique(), 0, {}, false},
                       {Action::Kind::add, a, "", -delta, {}, false},
                       {Action::Kind::add, b, "", delta, {}, false},
                       {Action::Kind::add, desk.key("bank/count"), "", 1, {}, false}};
    desk.make(request, [&](const Transact& r) {
      Transaction transaction;
      transaction.if_revision(turn, seen).set(turn, r.actions[0].value);
      for (std::size_t i = 1; i < r.actions.size(); ++i) {
        transaction.add(r.actions[i].key, r.actions[i].delta);
      }
      const TransactionResult result = desk.store.transact(transaction);
      return Transacted{result.applied, static_cast<std::uint32_t>(result.failed), result.revision,
                        result.sums};
    });
  }
}

/// All operations on one key. All workers share the key, which changes every second.
void use_any_key(Desk& desk) {
  std::map<std::string, std::string> last;  // value, by key
  while (desk.goes_on()) {
    const std::uint64_t flavour = desk.random.below(3);
    const std::string key =
        desk.key("any/" + std::to_string(flavour) + "/" + std::to_string(now() / 1'000'000'000));
    const std::uint64_t choice = desk.random.below(100);
    if (choice < 5) {
      remove(desk, key);
    } else if (choice < 15) {
      exists(desk, key);
    } else if (choice < 40) {
      const auto found = get(desk, key);
      last[key] = found ? found->value : "";
    } else if (flavour == 0 && choice < 70) {
      last[key] = compare_set(desk, key, last[key]).value_or("");
    } else if (flavour == 1 && choice < 95) {
      add(desk, key, 1 + static_cast<std::int64_t>(desk.random.below(9)));
    } else if (flavour == 2 && choice < 95) {
      append(desk, key);
    } else {
      set(desk, key, flavour == 1 ? std::to_string(desk.random.below(1000)) : desk.unique());
    }
  }
}

}  // namespace c10dd::torture
