// SPDX-License-Identifier: Apache-2.0
// Work on keys.
#include <map>

#include "tests/torture/desk.h"

namespace c10dd::torture {
namespace {

using namespace std::chrono_literals;

void ask_value(JobStore& store, Call& call) {
  try {
    Entry entry = store.entry(call.key, 0s);
    call.yes = true;
    call.value = std::move(entry.value);
    call.revision = entry.revision;
  } catch (const NotFound&) {
  }
}

/// compare_set says what is there afterwards; inputs are unique, so that it tells who put it there.
void ask_compare_set(JobStore& store, Call& call) {
  const std::string there = store.compare_set(call.key, call.expected, call.input);
  call.yes = there == call.input;
  if (!call.yes && there != call.expected) call.value = there;
}

bool get(Desk& desk, Call& call) {
  return desk.make(call, [&](Call& c) { ask_value(desk.store, c); });
}

bool set(Desk& desk, Call call) {
  return desk.make(call, [&](Call& c) { c.revision = desk.store.set(c.key, c.input, {}); });
}

bool remove(Desk& desk, const std::string& key) {
  Call call = call_of(What::remove, key);
  return desk.make(call, [&](Call& c) { c.yes = desk.store.remove(c.key); });
}

bool exists(Desk& desk, const std::string& key) {
  Call call = call_of(What::exists, key);
  return desk.make(call, [&](Call& c) { c.yes = desk.store.check({c.key}); });
}

bool add(Desk& desk, const std::string& key, std::int64_t delta) {
  Call call = call_of(What::add, key);
  call.delta = delta;
  return desk.make(call, [&](Call& c) { c.number = desk.store.add(c.key, c.delta); });
}

bool append(Desk& desk, Call call) {
  return desk.make(call, [&](Call& c) {
    c.number = static_cast<std::int64_t>(desk.store.append(c.key, c.input));
  });
}

}  // namespace

void keep_registers(Desk& desk) {
  while (desk.goes_on()) {
    const std::string key = desk.key("reg/" + std::to_string(desk.random.below(4)));
    if (desk.random.chance(60)) {
      set(desk, call_of(What::set, key, desk.unique()));
    } else {
      Call call = call_of(What::get, key);
      get(desk, call);
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
  while (desk.goes_on()) {
    const std::string log = desk.key("log/" + std::to_string(desk.named / 100));
    append(desk, call_of(What::append, log, desk.unique() + ";"));
  }
}

void extend_chain(Desk& desk) {
  const std::string key = desk.key("chain");
  std::string last;
  while (desk.goes_on()) {
    Call call = call_of(What::compare_set, key, desk.unique());
    call.expected = last;
    if (!desk.make(call, [&](Call& c) { ask_compare_set(desk.store, c); })) return;
    last = call.yes ? call.input : call.value;
  }
}

void set_groups(Desk& desk) {
  std::vector<std::string> keys;
  for (unsigned i = 0; i < kGroup; ++i) keys.push_back(desk.key("group/" + std::to_string(i)));
  while (desk.goes_on()) {
    if (desk.random.chance(50)) {
      Call call = call_of(What::multi_set, desk.key("group/"), desk.unique());
      desk.make(call, [&](Call& c) {
        desk.store.multi_set(keys, std::vector<std::string>(keys.size(), c.input));
      });
      continue;
    }
    Call call = call_of(What::multi_get, desk.key("group/"));
    desk.make(call, [&](Call& c) {
      const auto values = desk.store.multi_get(keys, 0s);
      c.yes = values == std::vector<std::string>(keys.size(), values.at(0));
      for (const std::string& value : values) c.value += (c.value.empty() ? "" : " ") + value;
      if (c.yes) c.value = values[0];
    });
  }
}

/// Moves between two accounts if nobody did meanwhile.
void transfer(Desk& desk) {
  const std::string a = desk.key("bank/a");
  const std::string b = desk.key("bank/b");
  const std::string turn = desk.key("bank/turn");
  while (desk.goes_on()) {
    if (desk.random.chance(30)) {
      Call call = call_of(What::balance, desk.key("bank/"));
      desk.make(call, [&](Call& c) {
        const auto values = desk.store.multi_get({a, b}, 0s);
        c.value = values.at(0) + " " + values.at(1);
        c.yes = std::stoll(values[0]) + std::stoll(values[1]) == 0;
      });
      continue;
    }
    Call look = call_of(What::get, turn);
    if (!get(desk, look)) return;
    Call call = call_of(What::transfer, desk.key("bank/"), desk.unique());
    call.expected = std::to_string(look.revision);
    call.delta = 1 + static_cast<std::int64_t>(desk.random.below(9));
    desk.make(call, [&](Call& c) {
      Transaction transaction;
      transaction.if_revision(turn, look.revision).set(turn, c.input);
      transaction.add(a, -c.delta).add(b, c.delta).add(desk.key("bank/count"), 1);
      const TransactionResult result = desk.store.transact(transaction);
      c.yes = result.applied;
      c.revision = result.revision;
      if (!result.applied) return;
      c.value = std::to_string(result.sums.at(0)) + " " + std::to_string(result.sums.at(1));
      c.number = result.sums.at(2);
    });
  }
}

/// Everything that can be done with one key, on keys that all share for a second.
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
      Call call = call_of(What::get, key);
      get(desk, call);
      last[key] = call.value;
    } else if (flavour == 0 && choice < 70) {
      Call call = call_of(What::compare_set, key, desk.unique());
      call.expected = last[key];
      desk.make(call, [&](Call& c) { ask_compare_set(desk.store, c); });
      last[key] = call.yes ? call.input : call.value;
    } else if (flavour == 1 && choice < 95) {
      add(desk, key, 1 + static_cast<std::int64_t>(desk.random.below(9)));
    } else if (flavour == 2 && choice < 95) {
      append(desk, call_of(What::append, key, desk.unique() + ";"));
    } else {
      set(desk, call_of(What::set, key,
                        flavour == 1 ? std::to_string(desk.random.below(1000)) : desk.unique()));
    }
  }
}

}  // namespace c10dd::torture
