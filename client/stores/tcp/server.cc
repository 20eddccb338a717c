// SPDX-License-Identifier: Apache-2.0
// A store on a server of PyTorch's TCPStore: that of a trainer's rank 0, or the daemon's. The keys
// are those that PyTorch's clients see: /key, or /prefix/key with a PrefixStore.
#include <algorithm>
#include <mutex>
#include <thread>
#include <utility>

#include "client/stores/checks.h"
#include "client/stores/server_links.h"
#include "client/stores/tcp/link.h"
#include "protocol/address.h"
#include "protocol/format.h"
#include "protocol/limits.h"
#include "protocol/parse.h"
#include "protocol/random.h"
#include "protocol/wording.h"

namespace c10dd::client::tcp {
namespace {

using tcpstore::Message;
using tcpstore::Query;
using Keys = StoreServer::Keys;

// A server ends a wait for a queue at once if a key has that name, and the other way round. A call
// that found nothing then asks again after this time.
constexpr std::chrono::milliseconds kOtherKindPause{20};

Failure unsupported(const std::string& what) {
  return failure(Code::unsupported,
                 "{}; use a store at c10dd://host:port/job or redis://host:port/job instead", what);
}

/// Returns a text that no value is equal to.
std::string unlikely_text() {
  return format("c10dd {:016x}{:016x}", random_number(), random_number());
}

class TcpServer final : public StoreServer {
 public:
  explicit TcpServer(const ServerUrl& url)
      : address_(address_text(url.host, url.port)),
        prefix_(url.path.empty() ? "/" : "/" + url.path + "/"),
        unlikely_(unlikely_text()),
        links_("TCPStore at " + address_,
               "start the process that hosts this store, or correct the URL",
               [this](Clock::time_point end) { return open_link(end); }) {}

  /// Recognises the server.
  Result<void> start(Clock::time_point end) {
    return links_.read(end, [](Link&) { return Result<void>(); });
  }

  Result<Found> get(const Keys& keys, Limit limit) override {
    if (keys.size() > 1 && !has(Query::multi_get)) {
      return unsupported(
          "this server is older than PyTorch 2.1 and cannot read several keys at once");
    }
    return look(keys, limit, [&](Link& link, const std::vector<std::string_view>& names) {
      return values_of(link, keys, names, limit.end);
    });
  }

  Result<Found> wait(const Keys& keys, Limit limit) override {
    return look(keys, limit,
                [](Link&, const std::vector<std::string_view>&) { return Result<Found>(Found{}); });
  }

  Result<void> set(const Keys& keys, const Keys& values, Limit limit) override {
    if (keys.empty()) return {};
    if (keys.size() > 1 && !has(Query::multi_set)) {
      return unsupported(
          "this server is older than PyTorch 2.1 and cannot set several keys at once");
    }
    const auto names = raw(keys);
    if (!names) return names.error();
    Message message{.query = Query::set, .key = names->front(), .value = values.front()};
    if (keys.size() > 1) {
      message = {.query = Query::multi_set};
      message.keys.assign(names->begin(), names->end());
      message.values.assign(values.begin(), values.end());
    }
    const auto done = confirmed({message, {.query = Query::check}}, limit);
    if (!done) return done.error();
    return {};
  }

  Result<std::int64_t> add(const std::string& key, std::int64_t delta, Limit limit) override {
    const auto name = raw(key);
    if (!name) return name.error();
    const auto sum = confirmed({{.query = Query::add, .key = *name, .number = delta}}, limit);
    if (!sum) return why_not_added(key, delta, sum.error());
    std::int64_t before = 0;
    if (!__builtin_sub_overflow(sum->number, delta, &before)) return sum->number;
    return failure(Code::out_of_range,
                   "add: the sum overflows 64 bits; PyTorch's server has stored {}", sum->number);
  }

  Result<std::uint64_t> append(const std::string& key, std::string_view value,
                               Limit limit) override {
    if (!has(Query::append)) {
      return unsupported("this server is older than PyTorch 2.1 and cannot append to a value");
    }
    const auto name = raw(key);
    if (!name) return name.error();
    const Result<Found> found = get({key}, {limit.end, false});
    if (!found) return found.error();
    const std::size_t length =
        value.size() + (found->missing.empty() ? found->values.front().size() : 0);
    if (length > limits::kValueBytes) return value_too_large(key, length);
    const auto after = confirmed({{.query = Query::append, .key = *name, .value = value},
                                  {.query = Query::get, .key = *name}},
                                 limit);
    if (!after) return after.error();
    return after->texts.front().size();
  }

  Result<std::string> compare_set(const std::string& key, const std::string& expected,
                                  const std::string& desired, Limit limit) override {
    const auto name = raw(key);
    if (!name) return name.error();
    auto reply = confirmed(
        {{.query = Query::compare_set, .key = *name, .value = desired, .expected = expected}},
        limit);
    if (!reply) return reply.error();
    return std::move(reply->texts.front());
  }

  Result<bool> remove(const std::string& key, Limit limit) override {
    const auto name = raw(key);
    if (!name) return name.error();
    const auto removed = confirmed({{.query = Query::remove, .key = *name}}, limit);
    if (!removed) return removed.error();
    return removed->number > 0;
  }

  Result<std::uint64_t> remove_prefix(const std::string&, Limit) override {
    return unsupported("a TCPStore cannot remove all keys with a prefix at once");
  }

  Result<Keys> list(const std::string& prefix, Limit limit) override {
    const Message message{.query = Query::list_keys};
    const Result<bool> lists = understands(message, lists_, limit);
    if (!lists) return lists.error();
    if (!*lists) {
      return unsupported("this server cannot list its keys, which needs PyTorch 2.10 or later");
    }
    const auto reply =
        links_.read(limit.end, [&](Link& link) { return link.call(message, limit.end); });
    if (!reply) return reply.error();
    Keys keys;
    for (const std::string& name : reply->texts) {
      if (name.starts_with(prefix_ + prefix)) keys.push_back(name.substr(prefix_.size()));
    }
    std::ranges::sort(keys);
    return keys;
  }

  Result<std::uint64_t> count(const std::string& prefix, Limit limit) override {
    const Result<Keys> keys = list(prefix, limit);
    if (!keys) return keys.error();
    return keys->size();
  }

  Result<std::uint64_t> queue_push(const std::string& key, std::string_view value,
                                   Limit limit) override {
    const auto name = queue(key, limit);
    if (!name) return name.error();
    const auto length = confirmed({{.query = Query::queue_push, .key = *name, .value = value},
                                   {.query = Query::queue_length, .key = *name}},
                                  limit);
    if (!length) return length.error();
    return static_cast<std::uint64_t>(length->number);
  }

  Result<std::optional<std::string>> queue_pop(const std::string& key, Limit limit) override {
    const auto name = queue(key, limit);
    if (!name) return name.error();
    while (true) {
      auto item = links_.read(limit.end, [&](Link& link) { return pop(link, *name, limit); });
      if (!item || *item || !limit.waits || Clock::now() >= limit.end) return item;
      std::this_thread::sleep_for(kOtherKindPause);
    }
  }

  Result<std::uint64_t> queue_length(const std::string& key, Limit limit) override {
    const auto name = queue(key, limit);
    if (!name) return name.error();
    const auto length = links_.read(limit.end, [&](Link& link) {
      return link.call({.query = Query::queue_length, .key = *name}, limit.end);
    });
    if (!length) return length.error();
    return static_cast<std::uint64_t>(length->number);
  }

 private:
  Result<std::unique_ptr<Link>> open_link(Clock::time_point end) {
    Version version;
    {
      const std::lock_guard lock(mutex_);
      if (version_.dialect == tcpstore::Dialect::unknown) {
        const Result<Version> found = recognise(address_, end);
        if (!found) return found.error();
        version_ = *found;
      }
      version = version_;
    }
    return Link::open(address_, version, end);
  }

  /// Returns whether the server's dialect has an operation. Some servers of a dialect lack some of
  /// its operations, see understands().
  bool has(Query query) {
    const std::lock_guard lock(mutex_);
    return tcpstore::code_of(query, version_.dialect).has_value();
  }

  /// Returns whether the server replies to this message, which must change nothing. A server closes
  /// the connection of a message that it does not know, so the message has one of its own.
  Result<bool> understands(const Message& message, std::optional<bool>& known, Limit limit) {
    if (!has(message.query)) return false;
    {
      const std::lock_guard lock(mutex_);
      if (known) return *known;
    }
    const Result<bool> found = links_.read(limit.end, [&](Link& alive) -> Result<bool> {
      Result<std::unique_ptr<Link>> other = open_link(limit.end);
      if (!other) return other.error();
      if ((*other)->call(message, limit.end)) return true;
      const auto reply = alive.call({.query = Query::check}, limit.end);
      if (!reply) return reply.error();
      return false;
    });
    const std::lock_guard lock(mutex_);
    if (found) known = *found;
    return found;
  }

  Result<std::string> raw(const std::string& key) const {
    std::string name = prefix_ + key;
    if (name.size() <= limits::kKeyBytes) return name;
    return failure(Code::too_large, "key too long: {} bytes with the prefix, limit {}", name.size(),
                   limits::kKeyBytes);
  }

  Result<Keys> raw(const Keys& keys) const {
    Keys names;
    for (const std::string& key : keys) {
      Result<std::string> name = raw(key);
      if (!name) return name.error();
      names.push_back(std::move(*name));
    }
    return names;
  }

  /// Returns the raw name of a queue. Fails with unsupported if the server has no queues.
  Result<std::string> queue(const std::string& key, Limit limit) {
    Result<std::string> name = raw(key);
    if (!name) return name;
    const Message length{.query = Query::queue_length, .key = *name};
    const Result<bool> queues = understands(length, queues_, limit);
    if (!queues) return queues.error();
    if (*queues) return name;
    return unsupported("this server has no queues, which need PyTorch 2.8 or later with libuv");
  }

  /// Makes a change, and returns the reply to the last message.
  Result<LinkReply> confirmed(const std::vector<Message>& messages, Limit limit) {
    auto replies =
        links_.change(limit.end, [&](Link& link) { return link.call(messages, limit.end); });
    if (!replies) return replies.error();
    return std::move(replies->back());
  }

  /// Returns why the server has closed the connection of an add(), if the value tells it.
  Failure why_not_added(const std::string& key, std::int64_t delta, Failure reason) {
    if (reason.code != Code::outcome_unknown) return reason;
    const Result<Found> found = get({key}, {Clock::now() + kReplyGrace, false});
    if (!found || !found->missing.empty()) return reason;
    const std::string& value = found->values.front();
    const auto number = parse_number<std::int64_t>(value);
    if (!number) return not_a_counter(key, value.size());
    std::int64_t sum = 0;
    return __builtin_add_overflow(*number, delta, &sum) ? sum_overflows(*number, delta) : reason;
  }

  /// Returns take(link, raw names) when the keys exist, or the missing keys when the limit has
  /// passed. take() may find that keys are missing, although the server has said otherwise.
  template <class Take>
  Result<Found> look(const Keys& keys, Limit limit, const Take& take) {
    if (keys.empty()) return Found{};
    const Result<Keys> raw_keys = raw(keys);
    if (!raw_keys) return raw_keys.error();
    const std::vector<std::string_view> names(raw_keys->begin(), raw_keys->end());
    for (bool last = false;;) {
      bool there = true;
      Result<Found> found = links_.read(limit.end, [&](Link& link) -> Result<Found> {
        const Result<bool> came = await(link, names, limit);
        if (!came) return came.error();
        there = *came;
        return there ? take(link, names) : Result<Found>(Found{});
      });
      if (found && !there) {
        found = missing_of(keys, names, limit);
        if (found && found->missing.empty()) {  // the last ones have just come
          if (std::exchange(last, Clock::now() >= limit.end)) return contradiction(keys.size());
          continue;
        }
      }
      if (!found || found->missing.empty()) return found;
      if (!limit.waits || Clock::now() >= limit.end) return found;
      std::this_thread::sleep_for(kOtherKindPause);
    }
  }

  Failure contradiction(std::size_t keys) const {
    return failure(
        Code::malformed,
        "TCPStore at {}: the server contradicts itself: it keeps reporting that some of {} keys "
        "are missing, and then that each of them exists",
        address_, keys);
  }

  static Result<bool> await(Link& link, const std::vector<std::string_view>& names, Limit limit) {
    if (limit.waits) return link.wait(names, limit.end);
    const Result<LinkReply> ready = link.call({.query = Query::check, .keys = names}, limit.end);
    if (!ready) return ready.error();
    return ready->number == tcpstore::kReady;
  }

  /// Asks for each key, in pieces whose replies fit the buffers of the sockets.
  Result<Found> missing_of(const Keys& keys, const std::vector<std::string_view>& names,
                           Limit limit) {
    constexpr std::size_t kPiece = 1'024;
    Found found;
    for (std::size_t begin = 0; begin < names.size(); begin += kPiece) {
      std::vector<Message> messages;
      for (std::size_t i = begin; i < std::min(begin + kPiece, names.size()); ++i) {
        messages.push_back({.query = Query::check, .keys = {names[i]}});
      }
      const auto replies =
          links_.read(limit.end, [&](Link& link) { return link.call(messages, limit.end); });
      if (!replies) return replies.error();
      for (std::size_t i = 0; i < replies->size(); ++i) {
        if ((*replies)[i].number != tcpstore::kReady) found.missing.push_back(keys[begin + i]);
      }
    }
    return found;
  }

  /// Reads values. Some servers reply with an empty value for a key that does not exist, which
  /// happens if it has just been removed, or if the name is that of a queue. Whether it exists
  /// tells a compare_set() that changes nothing: if the key is missing, it returns what it
  /// expected.
  Result<Found> values_of(Link& link, const Keys& keys, const std::vector<std::string_view>& names,
                          Clock::time_point end) const {
    const Message one{.query = Query::get, .key = names.front()};
    const Message many{.query = Query::multi_get, .keys = names};
    Result<LinkReply> reply = link.call(names.size() == 1 ? one : many, end);
    if (!reply) return reply.error();
    Found found;
    found.values = std::move(reply->texts);
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (!found.values[i].empty()) continue;
      const Message question{
          .query = Query::compare_set, .key = names[i], .value = unlikely_, .expected = unlikely_};
      Result<LinkReply> value = link.call(question, end);
      if (!value) return value.error();
      if (value->texts.front() == unlikely_) {
        found.missing.push_back(keys[i]);
      } else {
        found.values[i] = std::move(value->texts.front());
      }
    }
    return found;
  }

  /// Waits for an item, and takes it on the same connection, because a server may keep it for that.
  Result<std::optional<std::string>> pop(Link& link, const std::string& name, Limit limit) {
    if (limit.waits) {
      const Result<bool> came = link.wait({name}, limit.end);
      if (!came) return came.error();
      if (!*came) return std::optional<std::string>();
    }
    Result<LinkReply> item = link.call({.query = Query::queue_pop, .key = name}, limit.end);
    if (!item) return link.is_lost() ? links_.unknown(item.error()) : item.error();
    if (item->number == 0) return std::optional<std::string>();
    return std::optional(std::move(item->texts.front()));
  }

  const std::string address_;
  const std::string prefix_;    // of all keys in the server
  const std::string unlikely_;  // no value is equal to it
  std::mutex mutex_;
  Version version_;
  std::optional<bool> queues_;  // whether the server has them, as far as is known
  std::optional<bool> lists_;
  ServerLinks<Link> links_;
};

Result<std::unique_ptr<StoreServer>> open(const StoreSetup& setup) {
  auto server = std::make_unique<TcpServer>(setup.url);
  if (Result<void> started = server->start(setup.end); !started) return started.error();
  return std::unique_ptr<StoreServer>(std::move(server));
}

}  // namespace
}  // namespace c10dd::client::tcp

extern "C" __attribute__((visibility("default"))) const c10dd::client::ModuleHead*
c10dd_store_module() {
  static const c10dd::client::StoreModule module = {.open = &c10dd::client::tcp::open};
  return &module.head;
}
