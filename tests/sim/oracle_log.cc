// SPDX-License-Identifier: Apache-2.0
// Each acknowledged change is in the log of the disk once, in the order of revisions.
#include <set>

#include "daemon/core/keys/key_row.h"
#include "protocol/fields.h"
#include "protocol/utf8.h"
#include "tests/json/json_wire.h"
#include "tests/sim/model.h"
#include "tests/sim/oracles.h"
#include "tests/sim/queue_log.h"

namespace c10dd::sim {
namespace {

/// Returns true if the key may end without a call. Whether it may end now is checked by another
/// oracle.
bool may_lapse(const Bytes& key) { return key.starts_with('t') || key.starts_with('e'); }

/// Returns true if a good reply says that something was changed.
bool says_changed(const Op& op) {
  if (!op.good() || info_of(op.request).kind != OpKind::write) return false;
  const ReplyBody& body = **op.reply;
  if (const auto* compared = std::get_if<Compared>(&body)) return compared->swapped;
  if (const auto* removed = std::get_if<Removed>(&body)) return removed->existed;
  if (const auto* transacted = std::get_if<Transacted>(&body)) return transacted->applied;
  if (std::holds_alternative<RemovePrefix>(op.request)) return std::get<Counted>(body).count > 0;
  if (const auto* set = std::get_if<MultiSet>(&op.request)) return !set->keys.empty();
  return !std::holds_alternative<Done>(body);
}

/// Returns true for a transaction: it may be applied without a change.
bool may_change_nothing(const Op& op) { return std::holds_alternative<Transact>(op.request); }

std::string life_of(const Model::Entry& entry) {
  std::string text;
  if (entry.ttl > Duration(0)) text += " for " + std::to_string(entry.ttl.count() / 1000) + " us";
  return entry.owner == SessionId{} ? text : text + " with its session";
}

class LogJudge {
 public:
  LogJudge(const Records& records, const std::string& job)
      : records_(records), job_(job), queues_(records.log(job)) {
    for (const Op& op : records.ops) {
      if (op.job == job && op.sequence != 0) named_[{op.session, op.sequence}] = &op;
    }
  }

  OptionalViolation judge() {
    for (const Step& step : records_.log(job_)) {
      if (auto bad = judge_step(step)) return bad;
    }
    for (const Op& op : records_.ops) {
      if (op.job != job_ || !says_changed(op) || found_.contains(&op)) continue;
      if (may_change_nothing(op)) continue;
      return violation("acknowledged", describe(op) + " is not in what is durable");
    }
    return std::nullopt;
  }

 private:
  OptionalViolation violation(const char* oracle, const std::string& text) const {
    return Violation{oracle, job_ + ": " + text};
  }

  /// Applies the rows to actual_. Returns the keys that they name.
  std::set<Bytes> take_rows(const Step& step) {
    std::set<Bytes> named;
    for (const Row& row : step.rows) {
      if (row.key.empty() || row.key[0] != 'k') continue;
      const Bytes key = row.key.substr(1);
      if (row.kind == Row::Kind::put) {
        const auto value = wire::decode<core::KeyRow>(row.value);
        if (value) actual_[key] = {value->value, value->revision, value->ttl, value->owner};
        named.insert(key);
      } else if (row.kind == Row::Kind::erase) {
        actual_.erase(key);
        named.insert(key);
      } else {
        for (auto it = actual_.lower_bound(key);
             it != actual_.end() && it->first.starts_with(key);) {
          named.insert(it->first);
          it = actual_.erase(it);
        }
      }
    }
    return named;
  }

  OptionalViolation judge_step(const Step& step) {
    const std::set<Bytes> named = take_rows(step);
    const auto it = named_.find({step.session, step.sequence});
    const Op* op = step.sequence == 0 || it == named_.end() ? nullptr : it->second;
    if (op != nullptr && step.is_effect() && info_of(op->request).kind == OpKind::write) {
      if (auto bad = judge_call(step, *op)) return bad;
    }
    for (const Bytes& key : named) {
      if (may_lapse(key) && !actual_.contains(key)) model_.keys.erase(key);
    }
    if (model_.keys == actual_) return std::nullopt;
    return violation("model", "revision " + std::to_string(step.revision) +
                                  (op != nullptr ? " of " + describe(*op) : " of no call") +
                                  " does not change the keys as the model does:" + difference());
  }

  std::string difference() const {
    std::string text;
    const auto add = [&](const auto& these, const auto& those, const char* where) {
      for (const auto& [key, entry] : these) {
        const auto it = those.find(key);
        if (it != those.end() && it->second == entry) continue;
        text += " " + key + " = " + printable(entry.value, 32) + " since " +
                std::to_string(entry.revision) + life_of(entry) + " only " + where + ";";
      }
    };
    add(actual_, model_.keys, "in rows");
    add(model_.keys, actual_, "in the model");
    return text;
  }

  OptionalViolation judge_call(const Step& step, const Op& op) {
    if (!found_.insert(&op).second) {
      return violation("exactly_once", describe(op) + " is durable twice, again at revision " +
                                           std::to_string(step.revision));
    }
    if (!op.good() && !op.open_ended()) {
      return violation("definite_errors", describe(op) +
                                              " was refused and is durable at revision " +
                                              std::to_string(step.revision));
    }
    if (op.good() && op.answered < newest_call_) {
      return violation("real_time", describe(op) + " is at revision " +
                                        std::to_string(step.revision) +
                                        ", after a call that was made when it was answered");
    }
    newest_call_ = std::max(newest_call_, op.invoked);
    std::optional<Reply> expected = model_.apply(op.request, step.session, step.revision);
    if (const auto* push = std::get_if<QueuePush>(&op.request)) {
      const std::size_t before = queues_.free(push->key, step.revision - 1);
      expected = Reply(ReplyBody(Counted{before + 1}));
    }
    if (!expected || !op.good()) return std::nullopt;
    if (json::encode_reply_body(*expected) == json::encode_reply_body(*op.reply))
      return std::nullopt;
    return violation("model", describe(op) + ", the model says " + describe(*expected));
  }

  const Records& records_;
  const std::string& job_;
  const QueueLog queues_;
  std::map<std::pair<SessionId, std::uint64_t>, const Op*> named_;
  std::set<const Op*> found_;  // looked up only
  Model model_;
  std::map<Bytes, Model::Entry> actual_;
  std::uint64_t newest_call_ = 0;
};

}  // namespace

OptionalViolation judge_log(const Records& records) {
  for (const auto& [job, number] : records.jobs) {
    if (auto bad = LogJudge(records, job).judge()) return bad;
  }
  return std::nullopt;
}

}  // namespace c10dd::sim
