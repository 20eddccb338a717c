// SPDX-License-Identifier: Apache-2.0
// The words of tests/unit/scripts: a line of text to a Request.
// `x*300` is 300 times x, "" is empty, a last word like 2s or 500ms is a time-out, and so is the
// last word endless.
#pragma once

#include <algorithm>
#include <boost/describe/enum_from_string.hpp>
#include <cctype>
#include <charconv>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "protocol/fields.h"
#include "protocol/metric_catalog.h"
#include "protocol/ops.h"

namespace c10dd::script {

using Words = std::vector<std::string>;

/// Splits at blanks outside quotes.
inline Words split(const std::string& line) {
  Words words;
  bool quoted = false;
  bool in_word = false;
  for (const char c : line) {
    if (!quoted && c == ' ') {
      in_word = false;
      continue;
    }
    if (!std::exchange(in_word, true)) words.emplace_back();
    if (c == '"') {
      quoted = !quoted;
    } else {
      words.back() += c;
    }
  }
  return words;
}

inline std::int64_t number(const std::string& text) {
  std::int64_t value = 0;
  const auto [stop, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failed != std::errc() || stop != text.data() + text.size()) {
    throw std::invalid_argument("no number: " + text);
  }
  return value;
}

inline bool is_duration(const std::string& word) {
  return word.size() > 1 && word.back() == 's' && (word[0] == '-' || std::isdigit(word[0])) &&
         word.find_first_not_of("0123456789.-") >= word.size() - (word.ends_with("ms") ? 2 : 1);
}

inline Duration duration(const std::string& word) {
  const bool milli = word.ends_with("ms");
  return std::chrono::duration_cast<Duration>(
      std::chrono::duration<double, std::milli>(std::stod(word) * (milli ? 1 : 1000)));
}

/// `x*300` becomes 300 times x.
inline Bytes unfold(const std::string& word) {
  const std::size_t star = word.find('*');
  if (star != 1) return word;
  return Bytes(static_cast<std::size_t>(number(word.substr(2))), word[0]);
}

/// The words after an operation's name.
class Arguments {
 public:
  explicit Arguments(Words words) : words_(std::move(words)) {
    if (!words_.empty() && words_.back() == "endless") {
      timeout = Duration::max();
      words_.pop_back();
    } else if (!words_.empty() && is_duration(words_.back())) {
      timeout = duration(words_.back());
      words_.pop_back();
    }
  }

  std::string next(const std::string& fallback = "") {
    if (words_.empty()) return fallback;
    std::string word = words_.front();
    words_.erase(words_.begin());
    return word;
  }
  Bytes bytes() { return unfold(next()); }
  std::vector<Bytes> all() {
    std::vector<Bytes> rest;
    while (!words_.empty()) rest.push_back(bytes());
    return rest;
  }
  /// The value of name=value anywhere in the line.
  std::string option(const std::string& name, const std::string& fallback) {
    const auto it = std::ranges::find_if(
        words_, [&](const std::string& word) { return word.starts_with(name + "="); });
    if (it == words_.end()) return fallback;
    std::string value = it->substr(name.size() + 1);
    words_.erase(it);
    return value;
  }
  template <class T>
  T number_option(const std::string& name, T fallback) {
    return static_cast<T>(number(option(name, std::to_string(fallback))));
  }
  Duration duration_option(const std::string& name) { return duration(option(name, "0s")); }
  /// Whether the line has this word.
  bool flag(const std::string& name) { return std::erase(words_, name) > 0; }

  Duration timeout{0};

 private:
  Words words_;
};

/// The ranks in a word like 0,2-4.
inline std::vector<Rank> ranks(const std::string& word) {
  std::vector<Rank> list;
  std::istringstream parts(word);
  for (std::string part; std::getline(parts, part, ',');) {
    const std::size_t dash = part.find('-');
    const std::int64_t first = number(part.substr(0, dash));
    const std::int64_t last = dash == std::string::npos ? first : number(part.substr(dash + 1));
    for (std::int64_t rank = first; rank <= last; ++rank) list.push_back(static_cast<Rank>(rank));
  }
  return list;
}

/// GROUP RANK/SIZE [gen=G] [seq=S] [world=GROUP] [of=RANKS]
template <class Op>
Op barrier(Arguments& in) {
  Op op;
  op.group = in.option("world", "");
  op.participants = ranks(in.option("of", ""));
  op.generation = in.number_option<std::uint64_t>("gen", 0);
  op.sequence = in.number_option<std::uint64_t>("seq", 0);
  op.timeout = in.timeout;
  op.name = in.bytes();
  const std::string place = in.next();
  const std::size_t slash = place.find('/');
  op.rank = static_cast<Rank>(number(place.substr(0, slash)));
  op.world_size = static_cast<std::uint32_t>(number(place.substr(slash + 1)));
  return op;
}

/// GROUP RANK/SIZE SHAPE [root=R] [offset=O] [awaits-earlier] PARTS...
inline Exchange exchange(Arguments& in) {
  const auto root = in.number_option<Rank>("root", 0);
  const auto offset = in.number_option<std::uint64_t>("offset", 0);
  const bool awaits_earlier = in.flag("awaits-earlier");
  auto op = barrier<Exchange>(in);
  op.awaits_earlier = awaits_earlier;
  op.root = root;
  op.offset = offset;
  const std::string shape = in.next();
  op.shape = static_cast<Shape>(9);
  boost::describe::enum_from_string(shape.c_str(), op.shape);
  op.parts = in.all();
  return op;
}

/// KEY VALUE [ttl=T] [ephemeral]
inline Set set(Arguments& in) {
  Set op;
  op.ttl = in.duration_option("ttl");
  op.ephemeral = in.flag("ephemeral");
  op.key = in.bytes();
  op.value = in.bytes();
  return op;
}

/// KEY [prefix] [from=R] [skip=N]
inline Watch watch(Arguments& in) {
  Watch op;
  op.prefix = in.flag("prefix");
  op.from = in.number_option<Revision>("from", 0);
  op.skip = in.number_option<std::uint32_t>("skip", 0);
  op.key = in.bytes();
  op.timeout = in.timeout;
  return op;
}

/// exists KEY | absent KEY | value_is KEY VALUE | revision_is KEY REVISION
inline Condition condition(Arguments in) {
  Condition c;
  c.kind = static_cast<Condition::Kind>(9);
  boost::describe::enum_from_string(in.next().c_str(), c.kind);
  c.key = in.bytes();
  if (c.kind == Condition::Kind::value_is) c.value = in.bytes();
  if (c.kind == Condition::Kind::revision_is) c.revision = static_cast<Revision>(number(in.next()));
  return c;
}

/// set KEY VALUE [ttl=T] [ephemeral] | remove KEY | add KEY N | append KEY VALUE | push QUEUE VALUE
inline Action action(Arguments in) {
  Action a;
  a.kind = static_cast<Action::Kind>(9);
  boost::describe::enum_from_string(in.next().c_str(), a.kind);
  a.ttl = in.duration_option("ttl");
  a.ephemeral = in.flag("ephemeral");
  a.key = in.bytes();
  if (a.kind == Action::Kind::add) {
    a.delta = number(in.next("1"));
  } else {
    a.value = in.bytes();
  }
  return a;
}

/// Any number of `if CONDITION`, then of `do ACTION`.
inline Transact transact(const Words& words) {
  const auto starts = [](const std::string& word) { return word == "if" || word == "do"; };
  Transact op;
  for (auto it = words.begin(); it != words.end();) {
    const auto end = std::find_if(it + 1, words.end(), starts);
    if (*it == "if") op.conditions.push_back(condition(Arguments({it + 1, end})));
    if (*it == "do") op.actions.push_back(action(Arguments({it + 1, end})));
    it = end;
  }
  return op;
}

inline Report report(Arguments& in) {
  CollectiveTotals totals{"dp", "all_reduce", "gloo", 0, 0, 0, 0, 0, {}, {}, 0, {}, 0};
  Report op;
  op.number = static_cast<std::uint64_t>(number(in.next()));
  totals.count = static_cast<std::uint64_t>(number(in.next()));
  totals.buckets.resize(metric::kCoarseBuckets);
  totals.buckets[3] = in.number_option<std::uint64_t>("bucket", totals.count);
  op.collectives.push_back(totals);
  return op;
}

inline Hello hello(Arguments& in, const SessionId& session) {
  Hello hello;
  hello.session = session;
  hello.pid = in.number_option<std::uint64_t>("pid", 1);
  hello.seen.incarnation = in.number_option<std::uint64_t>("incarnation", 0);
  hello.seen.epoch = in.number_option<std::uint64_t>("epoch", 0);
  hello.seen.revision = in.number_option<std::uint64_t>("revision", 0);
  hello.expiry = in.duration_option("expiry");
  hello.fleeting = in.flag("fleeting");
  hello.c10d = hello.fleeting || in.flag("c10d");
  hello.number = in.number_option<std::uint64_t>("number", 0);
  hello.opened = in.number_option<std::uint64_t>("opened", 0);
  for (auto n = in.number_option<int>("labels", 0); n > 0; --n) hello.labels[std::to_string(n)];
  hello.host = unfold(in.next("host"));
  hello.rank = number(in.next("-1"));
  return hello;
}

/// KEY=VALUE..., where a word without = is a key alone.
inline MultiSet multi_set(Arguments& in) {
  MultiSet op;
  for (const Bytes& word : in.all()) {
    op.keys.push_back(unfold(word.substr(0, word.find('='))));
    if (word.find('=') != Bytes::npos) op.values.push_back(unfold(word.substr(word.find('=') + 1)));
  }
  return op;
}

/// The parts of a word like 7:dp:0/3.
inline Words parts_of(const std::string& word, char between = ':') {
  Words parts;
  std::istringstream in(word);
  for (std::string part; std::getline(in, part, between);) parts.push_back(part);
  return parts;
}

/// The activity of a group in a report, which is added if there is none.
inline GroupActivity& activity_of(Activity& op, const std::string& process_group) {
  const auto id = static_cast<std::uint64_t>(number(process_group));
  const auto found = std::ranges::find(op.groups, id, &GroupActivity::process_group);
  if (found != op.groups.end()) return *found;
  op.groups.emplace_back().process_group = id;
  return op.groups.back();
}

/// G:SEQUENCE:AGE:NAME ARGUMENTS of a collective, G:SEQUENCE:AGE:PEER of a message
inline void add_unfinished(Activity& op, const std::string& what, const Words& parts) {
  GroupActivity& group = activity_of(op, parts.at(0));
  UnfinishedOperation one;
  one.sequence = static_cast<std::uint64_t>(number(parts.at(1)));
  one.age = duration(parts.at(2));
  one.begun = what != "queued";
  const bool message = what == "recv" || what == "send";
  OperationCounts& counts = message ? group.messages : group.collectives;
  if (message) {
    using Kind = UnfinishedOperation::Kind;
    one.kind = what == "send" ? Kind::send : Kind::receive;
    one.peer = number(parts.at(3));
    one.name = what;
  } else {
    const std::size_t blank = std::min(parts.at(3).find(' '), parts.at(3).size() - 1);
    one.name = parts.at(3).substr(0, blank + 1);
    one.arguments = parts.at(3).substr(blank + 1);
    if (one.name.ends_with(' ')) one.name.pop_back();
  }
  counts = {one.sequence + 1, what == "queued" ? 1U : 0U, 1};
  group.oldest.push_back(one);
}

/// [open=G:NAME:RANK/SIZE[:JOB_RANK]] [issued=G:COUNT] [in=..., queued=..., recv=..., send=... as
/// in add_unfinished()] [close=G] [blocked] [timed_out]; each as often as needed.
inline Activity activity(Arguments& in) {
  Activity op;
  op.blocked = in.flag("blocked");
  op.timed_out = in.flag("timed_out");
  for (const Bytes& word : in.all()) {
    const std::size_t equals = word.find('=');
    const std::string what = word.substr(0, equals);
    const Words parts = parts_of(word.substr(equals + 1));
    if (what == "open") {
      const Words place = parts_of(parts.at(2), '/');
      OpenedGroup opened;
      opened.process_group = static_cast<std::uint64_t>(number(parts.at(0)));
      opened.name = unfold(parts.at(1));
      opened.rank = static_cast<Rank>(number(place.at(0)));
      opened.size = static_cast<std::uint32_t>(number(place.at(1)));
      opened.job_rank = parts.size() > 3 ? static_cast<Rank>(number(parts[3])) : opened.rank;
      op.opened.push_back(opened);
    } else if (what == "issued") {
      activity_of(op, parts.at(0)).collectives.issued =
          static_cast<std::uint64_t>(number(parts.at(1)));
    } else if (what == "close") {
      op.closed.push_back(static_cast<std::uint64_t>(number(parts.at(0))));
    } else {
      add_unfinished(op, what, parts);
    }
  }
  return op;
}

inline Request request(const std::string& op, Words words, const SessionId& session) {
  if (op == "transact") return transact(words);
  Arguments in(std::move(words));
  if (op == "hello") return hello(in, session);
  if (op == "ping") return Ping{};
  if (op == "goodbye") return Goodbye{};
  if (op == "cancel") return Cancel{static_cast<std::uint64_t>(number(in.next()))};
  if (op == "set") return set(in);
  if (op == "get") return Get{in.bytes(), in.timeout};
  if (op == "wait") {
    const bool each = in.flag("each");
    return Wait{in.all(), in.timeout, each};
  }
  if (op == "wait_counter") {
    const Bytes key = in.bytes();
    return WaitCounter{key, number(in.next()), in.timeout};
  }
  if (op == "read_values") {
    const auto first = in.number_option<std::uint32_t>("first", 0);
    return ReadValues{in.all(), first};
  }
  if (op == "check") return Check{in.all()};
  if (op == "add") {
    const bool lenient = in.flag("lenient");
    const Bytes key = in.bytes();
    return Add{key, number(in.next("1")), lenient};
  }
  if (op == "append") return Append{in.bytes(), in.bytes()};
  if (op == "compare_set") return CompareSet{in.bytes(), in.bytes(), in.bytes()};
  if (op == "remove") return Remove{in.bytes()};
  if (op == "multi_get") return MultiGet{in.all(), in.timeout};
  if (op == "multi_set") return multi_set(in);
  if (op == "remove_prefix") return RemovePrefix{in.bytes()};
  if (op == "watch") return watch(in);
  if (op == "queue_push") return QueuePush{in.bytes(), in.bytes()};
  if (op == "queue_pop") return QueuePop{in.bytes(), in.timeout};
  if (op == "queue_length") return QueueLength{in.bytes()};
  if (op == "list") {
    const std::string after = in.option("after", "");
    const auto limit = in.number_option<std::uint32_t>("limit", 0);
    return List{in.bytes(), after, limit};
  }
  if (op == "count") return Count{in.bytes()};
  if (op == "barrier") return barrier<Barrier>(in);
  if (op == "exchange") return exchange(in);
  if (op == "report") return report(in);
  if (op == "activity") return activity(in);
  throw std::invalid_argument("no operation: " + op);
}

}  // namespace c10dd::script
