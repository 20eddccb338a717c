// SPDX-License-Identifier: Apache-2.0
// The switchboard: one on(...) per operation, each a few lines. Waiting is in job_waits.cc.
// To add an operation: its struct in protocol/ops.h, one on(...) here, one script in tests.
#include "daemon/core/job.h"

#include <charconv>

#include "daemon/core/job_step.h"
#include "protocol/fields.h"
#include "protocol/limits.h"
#include "protocol/native_wire.h"

namespace c10dd::core {
namespace {

constexpr std::size_t kGarbageRows = 1'024;  // then they leave without waiting for a write

template <class Body>
std::optional<Answer> answer(Body body) {
  return Answer(ReplyBody(std::move(body)));
}
std::optional<Answer> refuse(Code code, std::string detail) {
  return Answer(failure(code, std::move(detail)));
}

std::optional<std::int64_t> parse_counter(const Bytes& text) {
  std::int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, failed] = std::from_chars(text.data(), end, value);
  if (failed != std::errc() || stop != end || text.empty()) return std::nullopt;
  return value;
}

}  // namespace

Effects Job::apply(const Origin& from, const CallId& call, const Request& request, TimePoint now) {
  const OpInfo& op = info_of(request);
  Effects out;
  Step step{from, call, now, revision_ + 1, out, sessions_.find(from.session), 0, {}};
  Maybe done;
  const bool opens = op.code == Hello::op.code;
  if (step.session != nullptr && (step.session->connected || opens)) {
    step.session->last_seen = now;
    sessions_.acknowledge(from.session, *step.session, call.acked_below);
    if (!opens && call.sequence >= step.session->acked_below + limits::kSessionWindow) {
      done = refuse(Code::window_exceeded,
                    "too many unacknowledged requests: sequence " + std::to_string(call.sequence) +
                        ", acknowledged below " + std::to_string(step.session->acked_below) +
                        ", limit " + std::to_string(limits::kSessionWindow));
    } else if (op.dedup == Dedup::reply) {
      done = replay(step, *step.session, op);
    }
  } else if (!opens) {
    done = refuse(Code::session_unknown, "no session: send hello on this channel first");
  }
  if (!done) done = dispatch(step, request);
  const bool changed = !out.rows.empty();
  const OpKind kind = op.kind == OpKind::write && !changed ? OpKind::read : op.kind;
  if (changed || sessions_.garbage() >= kGarbageRows) {
    revision_ = step.next;
    if (changed && op.dedup == Dedup::reply) {
      Bytes body;
      std::visit([&](const auto& b) { body = wire::encode(b); }, **done);
      out.rows.push_back(sessions_.keep(from.session, *step.session, call.sequence,
                                        {op.code, call.fingerprint, std::move(body), revision_}));
    }
    for (Row& row : sessions_.take_garbage()) out.rows.push_back(std::move(row));
  }
  if (done) {
    out.replies.push_back({from.session, call.sequence, op.code, kind, std::move(*done),
                           step.observed, call.arrived_ns});
  }
  release(step);
  out.revision = revision_;
  return out;
}

Job::Maybe Job::dispatch(Step& step, const Request& request) {
  return std::visit([&](const auto& r) { return on(step, r); }, request);
}

/// The stored reply of a repeated request, or nothing if this is the first time.
Job::Maybe Job::replay(Step& step, Session& session, const OpInfo& op) {
  const std::uint64_t sequence = step.call.sequence;
  if (sequence < session.acked_below) {
    return refuse(Code::outcome_unknown, "sequence " + std::to_string(sequence) + " is below " +
                                             std::to_string(session.acked_below) +
                                             ", which this session has acknowledged");
  }
  const auto it = session.replies.find(sequence);
  if (it == session.replies.end()) return std::nullopt;
  const StoredReply& stored = it->second;
  if (stored.op != op.code || stored.fingerprint != step.call.fingerprint) {
    return refuse(Code::sequence_reused, "sequence " + std::to_string(sequence) +
                                             " was already used by this session for another "
                                             "request");
  }
  Answer first = ReplyBody(Done{});
  const Result<void> decoded =
      native::decode_reply(stored.op, native::ReplyHeader::Kind::reply, stored.body, first);
  C10DD_ASSERT(decoded.has_value());
  step.observe(stored.revision);
  step.out.events.push_back(ReplyReplayed{op.code});
  return first;
}

// ---- sessions ----------------------------------------------------------------------------------

Job::Maybe Job::on(Step& step, const Hello& hello) {
  if (hello.host.size() > limits::kNameBytes || hello.labels.size() > limits::kLabels) {
    return refuse(Code::too_large, "hello: host name of " + std::to_string(hello.host.size()) +
                                       " bytes, limit " + std::to_string(limits::kNameBytes) +
                                       "; " + std::to_string(hello.labels.size()) +
                                       " labels, limit " + std::to_string(limits::kLabels));
  }
  const Stamp& seen = hello.seen;
  const bool newer = seen.epoch > start_.epoch || seen.revision > revision_;
  if (seen.incarnation != 0 && (seen.incarnation != start_.incarnation || newer)) {
    return refuse(Code::state_rolled_back,
                  "the daemon holds less than this client has seen: client incarnation " +
                      std::to_string(seen.incarnation) + " revision " +
                      std::to_string(seen.revision) + ", daemon incarnation " +
                      std::to_string(start_.incarnation) + " revision " +
                      std::to_string(revision_) + "; restart the job under a new run");
  }
  if (hello.rank >= static_cast<std::int64_t>(limits::kWorldSize)) {
    return refuse(Code::invalid_argument,
                  "hello: rank " + std::to_string(hello.rank) + ", ranks are below " +
                      std::to_string(limits::kWorldSize) + "; -1 is unknown");
  }
  const Result<std::optional<SessionId>> opened = sessions_.open(hello, step.now);
  if (!opened) return opened.error();
  if (opened->has_value()) ledger_.forget(**opened);
  Welcome welcome;
  welcome.version = kProtocolVersion;
  welcome.job = number_;
  welcome.heartbeat_interval = limits::kHeartbeatInterval;
  welcome.session_ttl = limits::kSessionTtl;
  welcome.window = limits::kSessionWindow;
  return answer(std::move(welcome));
}

Job::Maybe Job::on(Step&, const Ping&) { return answer(Done{}); }

Job::Maybe Job::on(Step& step, const Goodbye&) {
  for (const Pending::Waiter& waiter : pending_.drop(step.from.session)) {
    finish(step.out, waiter, failure(Code::aborted, "the session said goodbye"), 0, step.now);
  }
  meetings_.leave(step.from.session, step.next, step.out.rows);
  ledger_.forget(step.from.session);
  sessions_.close(step.from.session);
  for (Row& row : sessions_.take_garbage()) step.out.rows.push_back(std::move(row));
  if (!step.out.rows.empty()) step.observe(step.next);
  return answer(Done{});
}

Job::Maybe Job::on(Step& step, const Report& report) {
  Result<std::vector<CollectiveTotals>> differences = ledger_.add(step.from.session, report);
  if (!differences) return differences.error();
  if (!differences->empty()) {
    step.out.events.push_back(CollectivesMeasured{std::move(*differences)});
  }
  return answer(Done{});
}

// ---- keys --------------------------------------------------------------------------------------

void Job::put(Step& step, const Bytes& key, Bytes value) {
  step.out.rows.push_back({Row::Kind::put, 'k' + key, wire::encode(KeyRow{step.next, value})});
  keys_.put(key, std::move(value), step.next);
  step.fired.push_back(key_token(key));
  step.observe(step.next);
}

Job::Maybe Job::on(Step& step, const Set& set) {
  if (Result<void> good = keys_.check_put(set.key, set.value.size()); !good) return good.error();
  put(step, set.key, set.value);
  return answer(Written{step.next});
}

Job::Maybe Job::on(Step& step, const MultiSet& set) {
  if (set.keys.size() != set.values.size() || set.keys.size() > limits::kKeysPerRequest) {
    return refuse(Code::invalid_argument, "multi_set: " + std::to_string(set.keys.size()) +
                                              " keys and " + std::to_string(set.values.size()) +
                                              " values, limit " +
                                              std::to_string(limits::kKeysPerRequest) + " of each");
  }
  KeySpace::Growth growth;
  for (std::size_t i = 0; i < set.keys.size(); ++i) {
    Result<void> good = keys_.check_put(set.keys[i], set.values[i].size(), growth);
    if (!good) return good.error();
  }
  for (std::size_t i = 0; i < set.keys.size(); ++i) put(step, set.keys[i], set.values[i]);
  return answer(Written{set.keys.empty() ? revision_ : step.next});
}

Job::Maybe Job::on(Step& step, const Check& check) {
  if (check.keys.size() > limits::kKeysPerRequest) {
    return refuse(Code::too_large, "check: " + std::to_string(check.keys.size()) + " keys, limit " +
                                       std::to_string(limits::kKeysPerRequest));
  }
  bool all = true;
  for (const Bytes& key : check.keys) {
    if (Result<void> good = check_key(key); !good) return good.error();
    all = all && keys_.find(key) != nullptr;
    step.observe(keys_.observed(key));
  }
  return answer(Checked{all});
}

Job::Maybe Job::on(Step& step, const Add& add) {
  const KeySpace::Entry* entry = keys_.find(add.key);
  std::int64_t value = 0;
  if (entry != nullptr) {
    const std::optional<std::int64_t> counter = parse_counter(entry->value);
    step.observe(entry->revision);
    if (!counter) {
      return refuse(Code::wrong_type, "add: the value of the key is no decimal integer (" +
                                          std::to_string(entry->value.size()) + " bytes)");
    }
    value = *counter;
  }
  std::int64_t sum = 0;
  if (__builtin_add_overflow(value, add.delta, &sum)) {
    return refuse(Code::out_of_range, "add: " + std::to_string(value) + " + " +
                                          std::to_string(add.delta) +
                                          " overflows 64 bits; the value is unchanged");
  }
  Bytes text = std::to_string(sum);
  if (Result<void> good = keys_.check_put(add.key, text.size()); !good) return good.error();
  put(step, add.key, std::move(text));
  return answer(Counter{sum});
}

Job::Maybe Job::on(Step& step, const CompareSet& compare) {
  if (Result<void> good = check_key(compare.key); !good) return good.error();
  const KeySpace::Entry* entry = keys_.find(compare.key);
  const bool equal = entry != nullptr ? entry->value == compare.expected : compare.expected.empty();
  if (!equal) {
    step.observe(keys_.observed(compare.key));
    return answer(Compared{false, entry != nullptr, entry != nullptr ? entry->value : Bytes()});
  }
  Result<void> good = keys_.check_put(compare.key, compare.desired.size());
  if (!good) return good.error();
  put(step, compare.key, compare.desired);
  return answer(Compared{true, true, {}});
}

void Job::remove(Step& step, const Bytes& key) {
  if (!keys_.erase(key, step.next)) return;
  step.out.rows.push_back({Row::Kind::erase, 'k' + key, {}});
}

Job::Maybe Job::on(Step& step, const Remove& request) {
  if (Result<void> good = check_key(request.key); !good) return good.error();
  remove(step, request.key);
  step.observe(keys_.observed(request.key));
  return answer(Removed{!step.out.rows.empty()});
}

Job::Maybe Job::on(Step& step, const List& list) {
  const std::size_t limit = list.limit == 0
                                ? limits::kListPageKeys
                                : std::min<std::size_t>(list.limit, limits::kListPageKeys);
  KeyPage page;
  page.keys = keys_.list(list.prefix, list.start_after, limit, page.more);
  step.observe(revision_);
  return answer(std::move(page));
}

Job::Maybe Job::on(Step& step, const Count& count) {
  step.observe(revision_);
  return answer(Counted{keys_.count(count.prefix)});
}

// ---- life --------------------------------------------------------------------------------------

Result<void> Job::restore(const Row& row) {
  if (Sessions::owns(row)) return sessions_.restore(row);
  if (Meetings::owns(row)) return meetings_.restore(row);
  Result<KeyRow> value = wire::decode<KeyRow>(row.value);
  if (!row.key.starts_with('k') || !value) {
    return failure(Code::malformed, "damaged row of kind '" + row.key.substr(0, 1) + "'");
  }
  keys_.put(row.key.substr(1), std::move(value->value), value->revision);
  return {};
}

Result<void> Job::resume(TimePoint now) { return meetings_.resume(now); }

JobStats Job::stats() const {
  return {keys_.size(), keys_.bytes(), pending_.size(), meetings_.pending(), sessions_.connected()};
}

}  // namespace c10dd::core
