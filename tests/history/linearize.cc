// SPDX-License-Identifier: Apache-2.0
// A depth-first search over a list of call and return events. A call is removed from the list when
// the search places it, and put back when the search backtracks.
#include "tests/history/linearize.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <optional>
#include <unordered_set>

namespace c10dd::history {
namespace {

/// The key: absent, or a value.
using State = std::optional<Bytes>;

/// Returns the state of the key after the call, or nothing if the call's reply contradicts `state`.
std::optional<State> make(const KeyCall& call, const State& state) {
  const auto told = [&](bool fits, State after) -> std::optional<State> {
    if (call.known && !fits) return std::nullopt;
    return after;
  };
  switch (call.kind) {
    case KeyCall::Kind::set:
      return State(call.input);
    case KeyCall::Kind::get:
      return told(call.yes == state.has_value() && (!call.yes || call.value == *state), state);
    case KeyCall::Kind::exists:
      return told(call.yes == state.has_value(), state);
    case KeyCall::Kind::read:
      return told(call.value == state.value_or(""), state);
    case KeyCall::Kind::reaches:
      return told(state && number_at_start(&*state).value_or(INT64_MIN) >= call.delta, state);
    case KeyCall::Kind::add: {
      const Bytes* const value = state ? &*state : nullptr;
      const auto before = call.lenient ? number_at_start(value) : number_of(value);
      if (!before) return told(call.refused, state);
      const std::int64_t sum = *before + call.delta;
      return told(!call.refused && call.number == sum, State(std::to_string(sum)));
    }
    case KeyCall::Kind::compare_set: {
      const bool equal = state ? *state == call.expected : call.expected.empty();
      if (equal) return told(call.yes, State(call.input));
      return told(!call.yes && call.value == state.value_or(""), state);
    }
    case KeyCall::Kind::append: {
      const State after = state.value_or("") + call.input;
      return told(call.number == static_cast<std::int64_t>(after->size()), after);
    }
    case KeyCall::Kind::remove:
      return told(call.yes == state.has_value(), State());
  }
  return std::nullopt;
}

/// The call and return events in order of time. Both of a call are removed when the call is placed.
class Search {
 public:
  explicit Search(std::vector<KeyCall> calls) : calls_(std::move(calls)) {
    struct Point {
      std::uint64_t order;
      std::size_t call;
      bool is_return;
    };
    std::vector<Point> moments;
    for (std::size_t i = 0; i < calls_.size(); ++i) {
      moments.push_back({calls_[i].invoked, i, false});
      moments.push_back({calls_[i].known ? calls_[i].answered : ~std::uint64_t{0}, i, true});
    }
    std::stable_sort(moments.begin(), moments.end(),
                     [](const Point& a, const Point& b) { return a.order < b.order; });
    nodes_.resize(moments.size() + 1);  // the first is the head
    return_of_.resize(calls_.size());
    for (std::size_t i = 0; i < moments.size(); ++i) {
      nodes_[i].next = i + 1;
      nodes_[i + 1] = {i, i + 2, moments[i].call, moments[i].is_return};
      if (moments[i].is_return) return_of_[moments[i].call] = i + 1;
    }
    nodes_.back().next = 0;  // the end
    made_.assign((calls_.size() + 63) / 64, 0);
  }

  Verdict run(std::uint64_t patience) {
    State state;
    std::vector<std::pair<std::size_t, State>> stack;
    std::size_t at = nodes_[0].next;
    while (at != 0) {
      const Node node = nodes_[at];
      if (node.is_return && !calls_[node.call].known) return Verdict::linearizable;
      if (patience-- == 0) return Verdict::undecided;
      std::optional<State> after;
      if (!node.is_return) after = make(calls_[node.call], state);
      if (after) mark(node.call, true);
      if (after && !seen(*after)) {
        mark(node.call, false);
        after.reset();
      }
      if (after) {
        stack.emplace_back(at, std::move(state));
        state = std::move(*after);
        lift(at);
        at = nodes_[0].next;
      } else if (!node.is_return) {
        at = node.next;
      } else {
        if (stack.empty()) return Verdict::violated;
        at = stack.back().first;
        state = std::move(stack.back().second);
        stack.pop_back();
        mark(nodes_[at].call, false);
        put_back(at);
        at = nodes_[at].next;
      }
    }
    return Verdict::linearizable;
  }

 private:
  struct Node {
    std::size_t before = 0;
    std::size_t next = 0;
    std::size_t call = 0;
    bool is_return = false;
  };

  void mark(std::size_t call, bool made) {
    const std::uint64_t bit = std::uint64_t{1} << call % 64;
    made_[call / 64] = made ? made_[call / 64] | bit : made_[call / 64] & ~bit;
  }
  /// Remembers the pair (calls made, state). Returns false if the pair was already known.
  bool seen(const State& state) {
    std::string key(reinterpret_cast<const char*>(made_.data()), made_.size() * sizeof made_[0]);
    if (state) key += '=' + *state;
    return memory_.insert(std::move(key)).second;
  }
  void unlink(std::size_t at) {
    nodes_[nodes_[at].before].next = nodes_[at].next;
    if (nodes_[at].next != 0) nodes_[nodes_[at].next].before = nodes_[at].before;
  }
  void link(std::size_t at) {
    nodes_[nodes_[at].before].next = at;
    if (nodes_[at].next != 0) nodes_[nodes_[at].next].before = at;
  }
  void lift(std::size_t at) {
    unlink(at);
    unlink(return_of_[nodes_[at].call]);
  }
  void put_back(std::size_t at) {
    link(return_of_[nodes_[at].call]);
    link(at);
  }

  std::vector<KeyCall> calls_;
  std::vector<Node> nodes_;
  std::vector<std::size_t> return_of_;
  std::vector<std::uint64_t> made_;
  std::unordered_set<std::string> memory_;  // looked up only
};

}  // namespace

std::optional<std::int64_t> number_of(const Bytes* value) {
  if (value == nullptr) return 0;
  std::int64_t number = 0;
  const char* end = value->data() + value->size();
  const auto [stop, failed] = std::from_chars(value->data(), end, number);
  if (failed != std::errc() || stop != end || value->empty()) return std::nullopt;
  return number;
}

std::optional<std::int64_t> number_at_start(const Bytes* value) {
  if (value == nullptr) return 0;
  char* stop = nullptr;
  errno = 0;
  const std::int64_t number = std::strtoll(value->c_str(), &stop, 10);
  if (stop == value->c_str() || errno != 0) return std::nullopt;
  return number;
}

Verdict linearize(std::vector<KeyCall> calls, std::uint64_t patience) {
  return Search(std::move(calls)).run(patience);
}

}  // namespace c10dd::history
