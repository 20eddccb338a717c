// SPDX-License-Identifier: Apache-2.0
// A store on an etcd server. Each key is a key of etcd; each item of a queue is one, too, and the
// oldest item is the one that was made first. A change that depends on the present value is a
// transaction that is made again if another client was faster. A call that waits watches what is
// missing from the revision on at which it was missing.
#include <functional>
#include <map>
#include <set>
#include <utility>

#include "client/stores/checks.h"
#include "client/stores/etcd/link.h"
#include "client/stores/etcd/requests.h"
#include "client/stores/server_links.h"
#include "protocol/address.h"
#include "protocol/format.h"
#include "protocol/limits.h"
#include "protocol/parse.h"
#include "protocol/random.h"
#include "protocol/utf8.h"
#include "protocol/wording.h"

namespace c10dd::client::etcd {
namespace {

using Keys = StoreServer::Keys;

// The default of etcd's --max-txn-ops. Reads need no more, because they name their revision.
constexpr std::size_t kOperations = 128;

/// A key or queue that is missing, with what a watch looks for.
struct Missing {
  std::string name;
  std::vector<Range> ranges;
};

/// What was found, and the revision at which it was.
struct Seen {
  Found found;
  std::int64_t revision = 0;
};

std::string value_of(const Entry* entry) { return entry == nullptr ? "" : entry->value; }

class EtcdServer final : public StoreServer {
 public:
  explicit EtcdServer(const ServerUrl& url)
      : keys_("c10dd-store/" + url.path + "/k/"),
        queues_("c10dd-store/" + url.path + "/q/"),
        links_("etcd at " + address_text(url.host, url.port),
               "start an etcd server there, or correct the URL of the store",
               [address = address_text(url.host, url.port)](Clock::time_point end) {
                 return Link::open(address, end);
               }) {}

  /// Asks for something, to find out that the server is an etcd that serves.
  Result<void> start(Clock::time_point end) {
    const auto found = find({keys_}, Content::number, {end, false});
    if (!found) return found.error();
    return {};
  }

  Result<Found> get(const Keys& keys, Limit limit) override {
    return await(limit, ranges_of_keys(keys, false), [&]() -> Result<Seen> {
      Seen seen;
      const auto found = ask(ranges_of_keys(keys, false), Content::values, limit, seen.revision);
      if (!found) return found.error();
      for (std::size_t i = 0; i < keys.size(); ++i) {
        const std::vector<Entry>& list = (*found)[i].list;
        if (list.empty()) seen.found.missing.push_back(keys[i]);
        seen.found.values.push_back(list.empty() ? std::string() : list.front().value);
      }
      return seen;
    });
  }

  Result<Found> wait(const Keys& keys, Limit limit) override {
    return await(limit, ranges_of_keys(keys, true), [&]() -> Result<Seen> {
      Seen seen;
      const auto found = ask(ranges_of_keys(keys, true), Content::number, limit, seen.revision);
      if (!found) return found.error();
      for (std::size_t i = 0; i < keys.size(); ++i) {
        const bool there = (*found)[2 * i].number > 0 || (*found)[2 * i + 1].number > 0;
        if (!there) seen.found.missing.push_back(keys[i]);
      }
      return seen;
    });
  }

  Result<void> set(const Keys& keys, const Keys& values, Limit limit) override {
    std::map<std::string_view, std::string_view> last;  // etcd refuses a key that comes twice
    for (std::size_t i = 0; i < keys.size(); ++i) last[keys[i]] = values[i];
    std::vector<std::string> operations;
    operations.reserve(last.size());
    for (const auto& [key, value] : last) operations.push_back(put_op(key_of(key), value));
    const auto done = transact({}, operations, {}, {.operations = operations.size()}, limit);
    if (!done) return done.error();
    return {};
  }

  Result<std::int64_t> add(const std::string& key, std::int64_t delta, Limit limit) override {
    std::int64_t sum = 0;
    const Result<void> done = update(key, limit, [&](const Entry* old) -> Result<Change> {
      const auto value = old == nullptr ? 0 : parse_number<std::int64_t>(old->value);
      if (!value) return not_a_counter(key, old->value.size());
      if (__builtin_add_overflow(*value, delta, &sum)) return sum_overflows(*value, delta);
      return Change(std::to_string(sum));
    });
    if (!done) return done.error();
    return sum;
  }

  Result<std::uint64_t> append(const std::string& key, std::string_view value,
                               Limit limit) override {
    std::uint64_t length = 0;
    const Result<void> done = update(key, limit, [&](const Entry* old) -> Result<Change> {
      std::string whole = value_of(old).append(value);
      length = whole.size();
      if (length > limits::kValueBytes) return value_too_large(key, length);
      return Change(std::move(whole));
    });
    if (!done) return done.error();
    return length;
  }

  Result<std::string> compare_set(const std::string& key, const std::string& expected,
                                  const std::string& desired, Limit limit) override {
    std::string after;
    const Result<void> done = update(key, limit, [&](const Entry* old) -> Result<Change> {
      const bool same = value_of(old) == expected;
      after = same ? desired : old == nullptr ? expected : old->value;
      return same ? Change(desired) : Change();
    });
    if (!done) return done.error();
    return after;
  }

  Result<bool> remove(const std::string& key, Limit limit) override {
    const auto removed = remove_range({key_of(key)}, limit);
    if (!removed) return removed.error();
    return *removed > 0;
  }

  Result<std::uint64_t> remove_prefix(const std::string& prefix, Limit limit) override {
    return remove_range(with_prefix(key_of(prefix)), limit);
  }

  Result<Keys> list(const std::string& prefix, Limit limit) override {
    const auto entries = find(with_prefix(key_of(prefix)), Content::keys, limit);
    if (!entries) return entries.error();
    Keys keys;
    keys.reserve(entries->list.size());
    for (const Entry& entry : entries->list) keys.push_back(entry.key.substr(keys_.size()));
    return keys;
  }

  Result<std::uint64_t> count(const std::string& prefix, Limit limit) override {
    const auto entries = find(with_prefix(key_of(prefix)), Content::number, limit);
    if (!entries) return entries.error();
    return entries->number;
  }

  Result<std::uint64_t> queue_push(const std::string& key, std::string_view value,
                                   Limit limit) override {
    // Items of one queue need different names.
    const std::string item =
        format("{}{:016x}{:016x}", queue_of(key), random_number(), random_number());
    const Range items = with_prefix(queue_of(key));
    const auto done = transact({}, {put_op(item, value), range_op(items, Content::number)}, {},
                               {.operations = 2, .ranges = {items}}, limit);
    if (!done) return done.error();
    return done->ranges.front().number;
  }

  Result<std::optional<std::string>> queue_pop(const std::string& key, Limit limit) override {
    const Range items = with_prefix(queue_of(key));
    const auto found = await(limit, {{key, {items}}}, [&] { return take(key, items, limit); });
    if (!found) return found.error();
    if (!found->missing.empty()) return std::optional<std::string>();
    return std::optional(found->values.front());
  }

  Result<std::uint64_t> queue_length(const std::string& key, Limit limit) override {
    const auto entries = find(with_prefix(queue_of(key)), Content::number, limit);
    if (!entries) return entries.error();
    return entries->number;
  }

 private:
  using Change = std::optional<std::string>;  ///< the new value; nothing: leave the old one

  std::string key_of(std::string_view key) const { return keys_ + std::string(key); }
  /// Returns the prefix of the items of a queue. The length tells names apart that begin alike.
  std::string queue_of(const std::string& key) const {
    return format("{}{:08x}/", queues_, key.size()) + key + "/";
  }

  /// Returns the range of each key; with queues, also that of the queue with its name.
  std::vector<Missing> ranges_of_keys(const Keys& keys, bool queues) const {
    std::vector<Missing> all;
    for (const std::string& key : keys) {
      Missing& one = all.emplace_back(Missing{key, {{key_of(key)}}});
      if (queues) one.ranges.push_back(with_prefix(queue_of(key)));
    }
    return all;
  }

  Result<Entries> find(const Range& keys, Content content, Limit limit) {
    return links_.read(limit.end, [&](Link& link) {
      return link.ask("/v3/kv/range", range(keys, content), limit.end,
                      [&](const auto& reply) { return read_range(reply, keys); });
    });
  }

  Result<std::uint64_t> remove_range(const Range& keys, Limit limit) {
    return links_.change(limit.end, [&](Link& link) {
      return link.ask("/v3/kv/deleterange", etcd::remove(keys), limit.end, read_removed);
    });
  }

  /// Makes a transaction. Without conditions, it always succeeds.
  Result<Transacted> transact(const std::vector<std::string>& conditions,
                              const std::vector<std::string>& operations,
                              const std::vector<std::string>& otherwise, const Expected& expected,
                              Limit limit) {
    const std::string body = transaction(conditions, operations, otherwise);
    return links_.change(limit.end, [&](Link& link) {
      return link.ask("/v3/kv/txn", body, limit.end,
                      [&](const auto& reply) { return read_transaction(reply, expected); });
    });
  }

  /// Reads all ranges at one revision, which it returns in `revision`.
  Result<std::vector<Entries>> ask(const std::vector<Missing>& names, Content content, Limit limit,
                                   std::int64_t& revision) {
    std::vector<Range> ranges;
    for (const Missing& name : names) {
      ranges.insert(ranges.end(), name.ranges.begin(), name.ranges.end());
    }
    std::vector<Entries> all;
    while (all.size() < ranges.size()) {
      const std::size_t end = std::min(all.size() + kOperations, ranges.size());
      Expected expected;
      std::vector<std::string> operations;
      for (std::size_t i = all.size(); i < end; ++i) {
        operations.push_back(range_op(ranges[i], content, revision));
        expected.ranges.push_back(ranges[i]);
      }
      expected.operations = operations.size();
      auto found = links_.read(limit.end, [&](Link& link) {
        return link.ask("/v3/kv/txn", transaction({}, operations), limit.end,
                        [&](const auto& reply) { return read_transaction(reply, expected); });
      });
      if (!found) return found.error();
      if (revision == 0) revision = found->revision;
      std::move(found->ranges.begin(), found->ranges.end(), std::back_inserter(all));
    }
    return all;
  }

  /// Sets a key to decide(its entry, or null), if the key is then still as it was. Otherwise
  /// decides again.
  Result<void> update(const std::string& key, Limit limit,
                      const std::function<Result<Change>(const Entry*)>& decide) {
    const std::string name = key_of(key);
    Result<Entries> present = find({name}, Content::values, limit);
    while (true) {
      if (!present) return present.error();
      const Entry* old = present->list.empty() ? nullptr : &present->list.front();
      const Result<Change> change_to = decide(old);
      if (!change_to) return change_to.error();
      if (!*change_to) return {};
      auto done = transact(
          {changed_last_at(name, old == nullptr ? 0 : old->changed_at)},
          {put_op(name, **change_to)}, {range_op({name}, Content::values)},
          {.operations = 1, .may_fail = true, .otherwise = 1, .ranges_otherwise = {{name}}}, limit);
      if (!done) return done.error();
      if (done->succeeded) return {};
      if (Clock::now() >= limit.end) return always_faster(key);
      present = std::move(done->ranges.front());
    }
  }

  static Failure always_faster(const std::string& key) {
    return failure(Code::timed_out,
                   "timed out: each time this client tried to change \"{}\", another client was "
                   "faster; nothing was changed",
                   printable(key, limits::kNameShown));
  }

  /// Takes the oldest item of a queue.
  Result<Seen> take(const std::string& key, const Range& items, Limit limit) {
    while (true) {
      Seen seen;
      const auto oldest = ask({{key, {items}}}, Content::oldest, limit, seen.revision);
      if (!oldest) return oldest.error();
      if (oldest->front().list.empty()) {
        seen.found.missing.push_back(key);
        return seen;
      }
      const Entry& item = oldest->front().list.front();
      const auto done =
          transact({changed_last_at(item.key, item.changed_at)}, {remove_op(item.key)}, {},
                   {.operations = 1, .may_fail = true}, limit);
      if (!done) return done.error();
      if (!done->succeeded && Clock::now() >= limit.end) return always_faster(key);
      if (!done->succeeded) continue;  // another client has taken it
      seen.found.values.push_back(item.value);
      return seen;
    }
  }

  /// Returns what ask() finds. If the limit allows, waits until it finds all. `names` are
  /// all names that it looks for.
  template <class Ask>
  Result<Found> await(Limit limit, const std::vector<Missing>& names, const Ask& ask) {
    Result<Seen> seen = ask();
    while (seen && !seen->found.missing.empty() && limit.waits && Clock::now() < limit.end) {
      bool first = true;
      seen = links_.read(limit.end, [&](Link& link) -> Result<Seen> {
        if (!std::exchange(first, false)) {  // an older watch has ended: look where it was
          Result<Seen> now = ask();
          if (!now || now->found.missing.empty()) return now;
          return listen(link, std::move(*now), names, limit.end, ask);
        }
        return listen(link, *seen, names, limit.end, ask);
      });
    }
    if (!seen) return seen.error();
    return std::move(seen->found);
  }

  /// Watches what is missing, and looks again when all of it has come.
  template <class Ask>
  Result<Seen> listen(Link& link, Seen seen, const std::vector<Missing>& names,
                      Clock::time_point end, const Ask& ask) {
    const std::set<std::string> missing(seen.found.missing.begin(), seen.found.missing.end());
    std::map<std::string, std::string> coming;  // begin of a range -> name
    std::string requests;
    for (const Missing& one : names) {
      if (!missing.contains(one.name)) continue;
      for (const Range& keys : one.ranges) {
        coming[keys.first] = one.name;
        requests += watch(keys, seen.revision + 1);
      }
    }
    if (Result<void> sent = link.watch(requests, end); !sent) return sent.error();
    std::set<std::string> left = missing;
    while (true) {
      const auto message = link.next(end);
      if (!message) return message.error();
      if (!*message) return seen;  // the time is over
      const auto came = read_put_keys(**message);
      if (!came) return came.error();
      for (const std::string& key : *came) {
        // A watched range begins with the key itself, or with the queue's prefix of the item.
        const auto after = coming.upper_bound(key);
        if (after != coming.begin()) left.erase(std::prev(after)->second);
      }
      if (!left.empty()) continue;
      Result<Seen> now = ask();
      if (!now || now->found.missing.empty() || Clock::now() >= end) return now;
      left.insert(now->found.missing.begin(), now->found.missing.end());
      seen = std::move(*now);
    }
  }

  const std::string keys_;    // prefix of the keys of the job
  const std::string queues_;  // prefix of the items of all its queues
  ServerLinks<Link> links_;
};

Result<std::unique_ptr<StoreServer>> open(const StoreSetup& setup) {
  auto server = std::make_unique<EtcdServer>(setup.url);
  if (Result<void> started = server->start(setup.end); !started) return started.error();
  return std::unique_ptr<StoreServer>(std::move(server));
}

}  // namespace
}  // namespace c10dd::client::etcd

extern "C" __attribute__((visibility("default"))) const c10dd::client::ModuleHead*
c10dd_store_module() {
  static const c10dd::client::StoreModule module = {.open = &c10dd::client::etcd::open};
  return &module.head;
}
