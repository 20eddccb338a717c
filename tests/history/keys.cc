// SPDX-License-Identifier: Apache-2.0
// What each operation did to each key, and the search for an order.
#include "tests/history/keys.h"

#include <algorithm>

namespace c10dd::history {
namespace {

using Kind = KeyCall::Kind;

class Parts {
 public:
  Parts(const Op& op, const Wanted& wanted, CallsByKey& calls)
      : op_(op), wanted_(wanted), calls_(calls) {}

  void operator()(const Set& r) {
    add(r.key, {.kind = Kind::set, .input = r.value},
        [&](KeyCall& call) { call.revision = op_.told<Written>().revision; });
  }
  void operator()(const MultiSet& r) {
    for (std::size_t i = 0; i < r.keys.size(); ++i) {
      add(r.keys[i], {.kind = Kind::set, .input = r.values[i]},
          [&](KeyCall& call) { call.revision = op_.told<Written>().revision; });
    }
  }
  void operator()(const Get& r) {
    add(r.key, {.kind = Kind::get}, [&](KeyCall& call) {
      call.yes = true;
      call.value = op_.told<Value>().value;
      call.revision = op_.told<Value>().revision;
    });
    if (op_.code() == Code::not_found) put(r.key, {.kind = Kind::get, .known = true});
  }
  void operator()(const MultiGet& r) {
    for (std::size_t i = 0; i < r.keys.size(); ++i) {
      add(r.keys[i], {.kind = Kind::get}, [&](KeyCall& call) {
        call.yes = true;
        call.value = op_.told<Values>().values[i];
      });
    }
  }
  void operator()(const ReadValues& r) {
    const std::size_t end = op_.good() ? op_.told<ValuePage>().next : r.keys.size();
    for (std::size_t i = r.first; i < end; ++i) {
      add(r.keys[i], {.kind = Kind::read},
          [&](KeyCall& call) { call.value = op_.told<ValuePage>().values[i - r.first]; });
    }
  }
  void operator()(const WaitCounter& r) {
    add(r.key, {.kind = Kind::reaches, .delta = r.at_least}, [](KeyCall&) {});
  }
  void operator()(const Check& r) {
    if (r.keys.size() != 1) return;
    add(r.keys[0], {.kind = Kind::exists},
        [&](KeyCall& call) { call.yes = op_.told<Checked>().all; });
  }
  void operator()(const Wait& r) {
    for (const Bytes& key : r.keys) {
      add(key, {.kind = Kind::exists}, [](KeyCall& call) { call.yes = true; });
    }
  }
  void operator()(const Add& r) {
    add(r.key, {.kind = Kind::add, .delta = r.delta, .lenient = r.lenient},
        [&](KeyCall& call) { call.number = op_.told<Counter>().value; });
    if (op_.code() == (r.lenient ? Code::invalid_argument : Code::wrong_type)) {
      put(r.key, {.kind = Kind::add, .lenient = r.lenient, .known = true, .refused = true});
    }
  }
  void operator()(const Append& r) {
    add(r.key, {.kind = Kind::append, .input = r.value}, [&](KeyCall& call) {
      call.number = static_cast<std::int64_t>(op_.told<Appended>().bytes);
    });
  }
  void operator()(const CompareSet& r) {
    add(r.key, {.kind = Kind::compare_set, .input = r.desired, .expected = r.expected},
        [&](KeyCall& call) {
          call.yes = op_.told<Compared>().swapped;
          call.value = op_.told<Compared>().current;
        });
  }
  void operator()(const Remove& r) {
    add(r.key, {.kind = Kind::remove},
        [&](KeyCall& call) { call.yes = op_.told<Removed>().existed; });
  }
  void operator()(const Transact& r) {
    if (op_.good() && !op_.told<Transacted>().applied) return;
    std::size_t sums = 0;
    for (const Action& action : r.actions) {
      if (action.kind == Action::Kind::set) {
        add(action.key, {.kind = Kind::set, .input = action.value},
            [&](KeyCall& call) { call.revision = op_.told<Transacted>().revision; });
      }
      if (action.kind != Action::Kind::add) continue;
      const std::size_t mine = sums++;
      add(action.key, {.kind = Kind::add, .delta = action.delta},
          [&](KeyCall& call) { call.number = op_.told<Transacted>().sums[mine]; });
    }
  }
  template <class Other>
  void operator()(const Other&) {}

 private:
  /// Adds a call on this key. `know` copies the result from the reply, if there is a good reply.
  template <class Know>
  void add(const Bytes& key, KeyCall call, Know know) {
    if (!wanted_(key)) return;
    call.known = op_.good();
    if (call.known) know(call);
    const bool looks = call.kind == Kind::get || call.kind == Kind::read ||
                       call.kind == Kind::exists || call.kind == Kind::reaches;
    if (call.known || (!looks && op_.open_ended())) put(key, std::move(call));
  }
  /// Doubles the times, so that a call that begins at the time at which another one ends overlaps
  /// it.
  void put(const Bytes& key, KeyCall call) {
    if (!wanted_(key)) return;
    call.invoked = 2 * op_.invoked;
    call.answered = op_.answered == 0 ? 0 : 2 * op_.answered + 1;
    call.op = &op_;
    calls_[key].push_back(std::move(call));
  }

  const Op& op_;
  const Wanted& wanted_;
  CallsByKey& calls_;
};

}  // namespace

void take_apart(const Op& op, const Wanted& wanted, CallsByKey& calls) {
  std::visit(Parts(op, wanted, calls), op.request);
}

FoundFaults judge_order_of_calls(const Bytes& key, const KeyCalls& calls, Searched& searched) {
  ++searched.keys;
  const Verdict verdict = linearize(calls);
  if (verdict == Verdict::undecided) ++searched.undecided;
  if (verdict != Verdict::violated) return {};
  FoundFault finding{Fault::order, "key " + key + ": no order of its " +
                                       std::to_string(calls.size()) +
                                       " calls explains the answers"};
  for (const KeyCall& call : calls) finding.calls.push_back(call.op);
  std::ranges::stable_sort(finding.calls, {}, &Op::invoked);
  return {finding};
}

}  // namespace c10dd::history
