// SPDX-License-Identifier: Apache-2.0
// Every key alone is linearizable.
#include "tests/sim/linearize.h"
#include "tests/sim/oracles.h"

namespace c10dd::sim {
namespace {

using Kind = KeyCall::Kind;
using Calls = std::map<std::pair<std::string, Bytes>, std::vector<KeyCall>>;

/// Keys that only calls change, one at a time; others end by themselves or change in groups.
bool is_plain(const Bytes& key) { return key.starts_with('s') || key.starts_with('n'); }

class Collector {
 public:
  Collector(const Op& op, Calls& calls) : op_(op), calls_(calls) {}

  /// The call as one on this key; `know` fills in what it was told.
  template <class Know>
  void add(const Bytes& key, KeyCall call, Know know) {
    if (!is_plain(key)) return;
    call.invoked = op_.invoked;
    call.answered = op_.answered;
    call.known = op_.good();
    if (call.known) know(call);
    const bool looks = call.kind == Kind::get || call.kind == Kind::exists;
    if (call.known || (!looks && op_.open_ended())) calls_[{op_.job, key}].push_back(call);
  }

  template <class Body>
  const Body& told() const {
    return std::get<Body>(**op_.answer);
  }

  void operator()(const Set& r) {
    add(r.key, {.kind = Kind::set, .input = r.value}, [](KeyCall&) {});
  }
  void operator()(const Get& r) {
    add(r.key, {.kind = Kind::get}, [&](KeyCall& call) {
      call.yes = true;
      call.value = told<Value>().value;
    });
    if (op_.code() != Code::not_found) return;
    calls_[{op_.job, r.key}].push_back(
        {.kind = Kind::get, .invoked = op_.invoked, .answered = op_.answered, .known = true});
  }
  void operator()(const Add& r) {
    add(r.key, {.kind = Kind::add, .delta = r.delta},
        [&](KeyCall& call) { call.number = told<Counter>().value; });
    if (op_.code() != Code::wrong_type) return;
    calls_[{op_.job, r.key}].push_back({.kind = Kind::add,
                                        .invoked = op_.invoked,
                                        .answered = op_.answered,
                                        .known = true,
                                        .refused = true});
  }
  void operator()(const CompareSet& r) {
    add(r.key, {.kind = Kind::compare_set, .input = r.desired, .expected = r.expected},
        [&](KeyCall& call) {
          call.yes = told<Compared>().swapped;
          call.value = told<Compared>().current;
        });
  }
  void operator()(const Append& r) {
    add(r.key, {.kind = Kind::append, .input = r.value},
        [&](KeyCall& call) { call.number = static_cast<std::int64_t>(told<Appended>().bytes); });
  }
  void operator()(const Remove& r) {
    add(r.key, {.kind = Kind::remove}, [&](KeyCall& call) { call.yes = told<Removed>().existed; });
  }
  void operator()(const Check& r) {
    if (r.keys.size() != 1) return;
    add(r.keys[0], {.kind = Kind::exists}, [&](KeyCall& call) { call.yes = told<Checked>().all; });
  }
  void operator()(const Wait& r) {
    for (const Bytes& key : r.keys) {
      add(key, {.kind = Kind::exists}, [](KeyCall& call) { call.yes = true; });
    }
  }
  void operator()(const MultiGet& r) {
    for (std::size_t i = 0; i < r.keys.size(); ++i) {
      add(r.keys[i], {.kind = Kind::get}, [&](KeyCall& call) {
        call.yes = true;
        call.value = told<Values>().values[i];
      });
    }
  }
  void operator()(const Transact& r) {
    std::size_t sum = 0;
    for (const Action& action : r.actions) {
      if (action.kind != Action::Kind::add) continue;
      const std::size_t mine = sum++;
      if (op_.good() && !told<Transacted>().applied) continue;
      add(action.key, {.kind = Kind::add, .delta = action.delta},
          [&](KeyCall& call) { call.number = told<Transacted>().sums[mine]; });
    }
  }
  template <class Other>
  void operator()(const Other&) {}

 private:
  const Op& op_;
  Calls& calls_;
};

}  // namespace

Judgement judge_keys(const Records& records, std::uint64_t* undecided) {
  Calls calls;
  for (const Op& op : records.ops) std::visit(Collector(op, calls), op.request);
  for (const auto& [where, list] : calls) {
    const Verdict verdict = linearize(list);
    if (undecided != nullptr && verdict == Verdict::undecided) ++*undecided;
    if (verdict != Verdict::violated) continue;
    std::string text = where.first + " key " + where.second + ": no order of its " +
                       std::to_string(list.size()) + " calls explains the answers";
    for (const Op& op : records.ops) {
      Calls of_op;
      std::visit(Collector(op, of_op), op.request);
      if (of_op.contains(where)) text += "\n    " + describe(op);
    }
    return Violation{"linearizable", text};
  }
  return std::nullopt;
}

}  // namespace c10dd::sim
