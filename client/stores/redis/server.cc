// SPDX-License-Identifier: Apache-2.0
// A store on a Redis server. The keys of a job are one hash, and one sorted set that has their
// names in byte order; each queue is a list. A call that waits subscribes to a channel for each
// name that is missing, looks again, and then looks whenever messages have come for all of them.
#include <set>
#include <utility>

#include "client/stores/checks.h"
#include "client/stores/redis/link.h"
#include "client/stores/redis/script.h"
#include "client/stores/server_links.h"
#include "protocol/address.h"
#include "protocol/limits.h"

namespace c10dd::client::redis {
namespace {

using Keys = StoreServer::Keys;
using Views = std::vector<std::string_view>;

Views views(const Keys& keys) { return {keys.begin(), keys.end()}; }

/// The bounds of ZRANGEBYLEX for the names that begin with a prefix.
struct Range {
  explicit Range(const std::string& prefix) {
    if (!prefix.empty()) first = "[" + prefix;
    if (const std::string end = end_of_prefix(prefix); !end.empty()) last = "(" + end;
  }
  std::string first = "-";
  std::string last = "+";
};

/// Reads replies to a command that are a number.
struct NumberOf {
  std::string_view command;
  Result<std::uint64_t> operator()(const Reply& reply) const { return read_number(command, reply); }
};

template <class Take>
using Taken = std::invoke_result_t<const Take&, const Reply&>;

class RedisServer final : public StoreServer {
 public:
  explicit RedisServer(const ServerUrl& url)
      : prefix_("c10dd-store:{" + url.path + "}:"),
        values_(prefix_ + "values"),
        names_(prefix_ + "names"),
        channel_(prefix_ + "came:"),
        links_("Redis at " + address_text(url.host, url.port),
               "start a Redis server there, or correct the URL of the store",
               [url](Clock::time_point end) { return Link::open(url, kScript, end); }) {}

  /// Connects and logs in.
  Result<void> start(Clock::time_point end) {
    return links_.read(end, [](Link&) { return Result<void>(); });
  }

  Result<Found> get(const Keys& keys, Limit limit) override {
    return await(limit, [&] {
      return read("get", views(keys), {}, limit,
                  [&](const Reply& reply) { return read_values(reply, keys); });
    });
  }

  Result<Found> wait(const Keys& keys, Limit limit) override {
    Keys queues;
    for (const std::string& key : keys) queues.push_back(queue(key));
    return await(limit, [&] {
      return read("exist", views(keys), views(queues), limit,
                  [&](const Reply& reply) { return read_presence(reply, keys); });
    });
  }

  Result<void> set(const Keys& keys, const Keys& values, Limit limit) override {
    Views pairs;
    pairs.reserve(2 * keys.size());
    for (std::size_t i = 0; i < keys.size(); ++i) {
      pairs.emplace_back(keys[i]);
      pairs.emplace_back(values[i]);
    }
    return change("set", pairs, {}, limit, read_set);
  }

  Result<std::int64_t> add(const std::string& key, std::int64_t delta, Limit limit) override {
    return change("add", {key, std::to_string(delta)}, {}, limit,
                  [&](const Reply& reply) { return read_sum(reply, key, delta); });
  }

  Result<std::uint64_t> append(const std::string& key, std::string_view value,
                               Limit limit) override {
    auto length = change("append", {key, value, std::to_string(limits::kValueBytes)}, {}, limit,
                         NumberOf{"append"});
    if (length && *length > limits::kValueBytes) return value_too_large(key, *length);
    return length;
  }

  Result<std::string> compare_set(const std::string& key, const std::string& expected,
                                  const std::string& desired, Limit limit) override {
    return change("compare_set", {key, expected, desired}, {}, limit,
                  [&](const Reply& reply) { return read_compared(reply, expected, desired); });
  }

  Result<bool> remove(const std::string& key, Limit limit) override {
    const auto removed = change("remove", {key}, {}, limit, NumberOf{"remove"});
    if (!removed) return removed.error();
    return *removed > 0;
  }

  Result<std::uint64_t> remove_prefix(const std::string& prefix, Limit limit) override {
    const Range range(prefix);
    return change("remove_prefix", {range.first, range.last}, {}, limit, NumberOf{"remove_prefix"});
  }

  Result<Keys> list(const std::string& prefix, Limit limit) override {
    return read_range("ZRANGEBYLEX", prefix, limit,
                      [&](const Reply& reply) { return read_names(reply, prefix); });
  }

  Result<std::uint64_t> count(const std::string& prefix, Limit limit) override {
    return read_range("ZLEXCOUNT", prefix, limit, NumberOf{"ZLEXCOUNT"});
  }

  Result<std::uint64_t> queue_push(const std::string& key, std::string_view value,
                                   Limit limit) override {
    return change("push", {key, value}, {queue(key)}, limit, NumberOf{"push"});
  }

  Result<std::optional<std::string>> queue_pop(const std::string& key, Limit limit) override {
    const Result<Found> found = await(limit, [&]() -> Result<Found> {
      const auto item = change("pop", {}, {queue(key)}, limit, read_item);
      if (!item) return item.error();
      if (!*item) return Found{{}, {key}};
      return Found{{**item}, {}};
    });
    if (!found) return found.error();
    if (!found->missing.empty()) return std::optional<std::string>();
    return std::optional(found->values.front());
  }

  Result<std::uint64_t> queue_length(const std::string& key, Limit limit) override {
    RespCommand command;
    command << "LLEN" << queue(key);
    return links_.read(limit.end, [&](Link& link) {
      return link.accept(link.call(command, limit.end), NumberOf{"LLEN"});
    });
  }

 private:
  std::string queue(const std::string& key) const { return prefix_ + "queue:" + key; }

  /// Returns take(reply to an operation of the script that changes nothing).
  template <class Take>
  Taken<Take> read(std::string_view op, const Views& arguments, const Views& queues, Limit limit,
                   const Take& take) {
    const ScriptCall call = script_call(op, arguments, queues);
    return links_.read(
        limit.end, [&](Link& link) { return link.accept(link.run_script(call, limit.end), take); });
  }

  /// Returns take(reply to an operation of the script).
  template <class Take>
  Taken<Take> change(std::string_view op, const Views& arguments, const Views& queues, Limit limit,
                     const Take& take) {
    const ScriptCall call = script_call(op, arguments, queues);
    return links_.change(
        limit.end, [&](Link& link) { return link.accept(link.run_script(call, limit.end), take); });
  }

  ScriptCall script_call(std::string_view op, const Views& arguments, const Views& queues) const {
    ScriptCall call{{values_, names_}, {op, channel_}};
    call.keys.insert(call.keys.end(), queues.begin(), queues.end());
    call.arguments.insert(call.arguments.end(), arguments.begin(), arguments.end());
    return call;
  }

  template <class Take>
  Taken<Take> read_range(std::string_view verb, const std::string& prefix, Limit limit,
                         const Take& take) {
    const Range range(prefix);
    RespCommand command;
    command << verb << names_ << range.first << range.last;
    return links_.read(
        limit.end, [&](Link& link) { return link.accept(link.call(command, limit.end), take); });
  }

  /// Returns what `ask` finds. If the limit allows, waits until it finds all.
  template <class Ask>
  Result<Found> await(Limit limit, const Ask& ask) {
    Result<Found> found = ask();
    while (found && !found->missing.empty() && limit.waits && Clock::now() < limit.end) {
      found =
          links_.read(limit.end, [&](Link& link) { return listen(link, *found, limit.end, ask); });
    }
    return found;
  }

  /// Subscribes to what is missing, looks, and looks again when all of it has come.
  template <class Ask>
  Result<Found> listen(Link& link, const Found& before, Clock::time_point end, const Ask& ask) {
    std::set<std::string> coming;
    for (const std::string& name : before.missing) coming.insert(channel_ + name);
    if (Result<void> done = link.subscribe({coming.begin(), coming.end()}, end); !done) {
      return done.error();
    }
    while (true) {
      Result<Found> found = ask();
      if (!found) return found;
      if (found->missing.empty() || Clock::now() >= end) {
        // The reply counts, whatever becomes of this connection.
        static_cast<void>(link.unsubscribe(end));
        return found;
      }
      coming.clear();
      for (const std::string& name : found->missing) coming.insert(channel_ + name);
      while (!coming.empty()) {
        const Result<std::string> name = link.next_message(end);
        if (!name) return name.error();
        if (name->empty()) break;  // the time is over; look once more
        coming.erase(*name);
      }
    }
  }

  const std::string prefix_;  // of all keys of the job; in braces what a Redis Cluster hashes
  const std::string values_;
  const std::string names_;
  const std::string channel_;
  ServerLinks<Link> links_;
};

Result<std::unique_ptr<StoreServer>> open(const StoreSetup& setup) {
  auto server = std::make_unique<RedisServer>(setup.url);
  if (Result<void> started = server->start(setup.end); !started) return started.error();
  return std::unique_ptr<StoreServer>(std::move(server));
}

}  // namespace
}  // namespace c10dd::client::redis

extern "C" __attribute__((visibility("default"))) const c10dd::client::ModuleHead*
c10dd_store_module() {
  static const c10dd::client::StoreModule module = {.open = &c10dd::client::redis::open};
  return &module.head;
}
