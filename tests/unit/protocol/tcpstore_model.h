// SPDX-License-Identifier: Apache-2.0
// A store in memory that serves the requests of conversations: it has what the tests of
// protocol/tcpstore_dialogue.h need of the daemon. Its replies wait until the test takes them.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "protocol/tcpstore_dialogue.h"

namespace c10dd::tcpstore {

class Model final : public RequestSink {
 public:
  using Replies = std::deque<std::pair<std::uint64_t, Reply>>;

  std::map<Bytes, Bytes> keys;
  std::map<Bytes, std::deque<Bytes>> queues;
  std::size_t page = 2;             ///< most keys or values in one page
  Replies replies;                  ///< not taken yet
  std::vector<std::string> served;  ///< names of all requests

  bool submit(std::uint64_t sequence, const Request& request) override {
    served.emplace_back(info_of(request).name);
    const bool blocked = std::visit([&](const auto& op) { return serve(sequence, op); }, request);
    wake();
    return blocked;
  }

  /// Sets a key, as another client does.
  void set(const Bytes& key, const Bytes& value) {
    keys[key] = value;
    wake();
  }

 private:
  template <class Op>
  bool serve(std::uint64_t, const Op&) {
    C10DD_ASSERT(false);  // no message needs this operation
    return false;
  }
  bool done(std::uint64_t sequence, Reply reply) {
    replies.emplace_back(sequence, std::move(reply));
    return false;
  }
  std::int64_t number(const Bytes& key) const {
    const auto found = keys.find(key);
    return found == keys.end() ? 0 : std::atoll(found->second.c_str());
  }

  bool serve(std::uint64_t sequence, const Set& set) {
    keys[set.key] = set.value;
    return done(sequence, ReplyBody(Written{1}));
  }
  bool serve(std::uint64_t sequence, const MultiSet& set) {
    for (std::size_t i = 0; i < set.keys.size(); ++i) keys[set.keys[i]] = set.values[i];
    return done(sequence, ReplyBody(Written{1}));
  }
  bool serve(std::uint64_t sequence, const Append& append) {
    keys[append.key] += append.value;
    return done(sequence, ReplyBody(Appended{1}));
  }
  bool serve(std::uint64_t sequence, const Add& add) {
    C10DD_ASSERT(add.lenient);
    if (number(add.key) == 0 && keys.contains(add.key) && keys[add.key] != "0") {
      return done(sequence, failure(Code::invalid_argument, "no number"));
    }
    std::int64_t sum = 0;
    if (__builtin_add_overflow(number(add.key), add.delta, &sum)) {
      return done(sequence, failure(Code::out_of_range, "too large"));
    }
    keys[add.key] = std::to_string(sum);
    return done(sequence, ReplyBody(Counter{number(add.key)}));
  }
  bool serve(std::uint64_t sequence, const CompareSet& compare) {
    const bool exists = keys.contains(compare.key);
    const Bytes current = exists ? keys[compare.key] : Bytes();
    if (compare.expected == current) {
      keys[compare.key] = compare.desired;
      return done(sequence, ReplyBody(Compared{true, true, {}}));
    }
    return done(sequence, ReplyBody(Compared{false, exists, current}));
  }
  bool serve(std::uint64_t sequence, const Get& get) {
    const auto found = keys.find(get.key);
    if (found == keys.end()) return done(sequence, failure(Code::not_found, "no key"));
    return done(sequence, ReplyBody(Value{found->second, 1}));
  }
  bool serve(std::uint64_t sequence, const Check& check) {
    return done(sequence, ReplyBody(Checked{all(check.keys)}));
  }
  bool serve(std::uint64_t sequence, const Remove& remove) {
    return done(sequence, ReplyBody(Removed{keys.erase(remove.key) > 0}));
  }
  bool serve(std::uint64_t sequence, const Count&) {
    return done(sequence, ReplyBody(Counted{keys.size()}));
  }
  bool serve(std::uint64_t sequence, const List& list) {
    KeyPage out;
    auto at = list.start_after.empty() ? keys.begin() : keys.upper_bound(list.start_after);
    for (; at != keys.end() && out.keys.size() < page; ++at) out.keys.push_back(at->first);
    out.more = at != keys.end();
    return done(sequence, ReplyBody(std::move(out)));
  }
  bool serve(std::uint64_t sequence, const ReadValues& read) {
    ValuePage out{{}, read.first};
    for (; out.next < read.keys.size() && out.values.size() < page; ++out.next) {
      const auto found = keys.find(read.keys[out.next]);
      out.values.push_back(found == keys.end() ? Bytes() : found->second);
    }
    return done(sequence, ReplyBody(std::move(out)));
  }
  bool serve(std::uint64_t sequence, const QueuePush& push) {
    queues[push.key].push_back(push.value);
    return done(sequence, ReplyBody(Counted{queues[push.key].size()}));
  }
  bool serve(std::uint64_t sequence, const QueueLength& length) {
    return done(sequence, ReplyBody(Counted{queues[length.key].size()}));
  }
  bool serve(std::uint64_t sequence, const QueuePop& pop) {
    std::deque<Bytes>& queue = queues[pop.key];
    if (queue.empty()) return done(sequence, failure(Code::not_found, "empty"));
    Popped popped{queue.front(), queue.size()};
    queue.pop_front();
    return done(sequence, ReplyBody(std::move(popped)));
  }
  bool serve(std::uint64_t sequence, const Wait& wait) {
    C10DD_ASSERT(wait.each && wait.timeout == Duration::max());
    if (all(wait.keys)) return done(sequence, ReplyBody(Done{}));
    waits_.push_back({sequence, wait.keys, {}, 0});
    return true;
  }
  bool serve(std::uint64_t sequence, const WaitCounter& wait) {
    C10DD_ASSERT(wait.timeout == Duration::max());
    if (number(wait.key) >= wait.at_least) return done(sequence, ReplyBody(Done{}));
    waits_.push_back({sequence, {}, wait.key, wait.at_least});
    return true;
  }
  bool serve(std::uint64_t sequence, const Cancel& cancel) {
    std::erase_if(waits_, [&](const auto& wait) { return wait.sequence == cancel.sequence; });
    return done(sequence, ReplyBody(Done{}));
  }

  struct Waiting {
    std::uint64_t sequence;
    std::vector<Bytes> keys;
    Bytes counter;
    std::int64_t at_least;
  };

  bool all(const std::vector<Bytes>& wanted) const {
    return std::all_of(wanted.begin(), wanted.end(), [&](const Bytes& key) {
      const auto queue = queues.find(key);
      return keys.contains(key) || (queue != queues.end() && !queue->second.empty());
    });
  }
  void wake() {
    for (auto wait = waits_.begin(); wait != waits_.end();) {
      const bool over =
          wait->keys.empty() ? number(wait->counter) >= wait->at_least : all(wait->keys);
      if (over) done(wait->sequence, ReplyBody(Done{}));
      wait = over ? waits_.erase(wait) : wait + 1;
    }
  }

  std::vector<Waiting> waits_;
};

}  // namespace c10dd::tcpstore
