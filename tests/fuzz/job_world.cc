// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/job_world.h"

#include "protocol/native_wire.h"

namespace c10dd::fuzz {
namespace {

constexpr std::uint64_t kIncarnation = 7;
constexpr SessionId kProbe{9, 9};

/// One of the four sessions of Draw is always fleeting, the others never are.
bool is_fleeting(const SessionId& session) { return session.low == 4; }

void put(JobWorld::Rows& rows, const Row& row) {
  C10DD_ASSERT(!row.key.empty());
  if (row.kind == Row::Kind::put) {
    rows[row.key] = row.value;
  } else if (row.kind == Row::Kind::erase) {
    rows.erase(row.key);
  } else {
    std::erase_if(rows, [&](const auto& entry) { return entry.first.starts_with(row.key); });
  }
}

}  // namespace

Bytes wire_form(std::uint8_t op, const Reply& reply) {
  native::ReplyHeader header;
  header.op = op;
  const native::EncodedReply encoded = native::encode_reply(header, reply);
  const Bytes bytes = encoded.head + Bytes(encoded.tail.view());
  const auto frame = native::cut_reply(bytes, limits::kFrameBytes);
  C10DD_ASSERT(frame && *frame && (*frame)->size == bytes.size());
  Reply decoded = ReplyBody(Done{});
  C10DD_ASSERT(native::decode_reply(op, (*frame)->header.kind, (*frame)->body, decoded));
  return bytes;
}

JobWorld::JobWorld(Input& in) : in_(in), draw_(in) {
  const std::uint8_t b = in_.byte();
  if (b & 1) quotas_.keys = 6;
  if (b & 2) quotas_.bytes = 512;
  if (b & 4) quotas_.waits = 3;
  if (b & 8) quotas_.queue_items = 4;
  if (b & 16) quotas_.queue_bytes = 64;
  if (b & 32) quotas_.history_changes = 6;
  if (b & 64) quotas_.history_bytes = 256;
  few_sessions_ = (b & 128) != 0;
  if (few_sessions_) quotas_.sessions = 2;
  job_ = load({}, 0);
  C10DD_ASSERT(job_ != nullptr);
}

void JobWorld::step() {
  const SessionId session = Draw::session(in_.byte());
  switch (const std::size_t choice = in_.below(16)) {
    case 0:
      return disconnect(session);
    case 1: {
      Duration time{0};
      draw_.fill(time);
      return pass(std::clamp<Duration>(time, Duration(0), limits::kTimeoutMax));
    }
    case 2:
      return commit(in_.byte());
    case 3:
      return restart();
    case 4:
      return repeat();
    case 5: {
      core::CallId call;
      draw_.fill(call.sequence);
      draw_.fill(call.acked_below);
      draw_.fill(call.fingerprint);
      const Request request = draw_.request();
      if (const auto* any = std::get_if<Hello>(&request)) return hello(session, *any);
      apply(session, call, request);
      return;
    }
    case 6: {
      Hello any;
      draw_.fill(any);
      return hello(session, std::move(any));
    }
    default:
      if (!connected_.contains(session)) hello(session, {});
      if (choice < 14 || !connected_.contains(session)) return fresh_call(session);
      return apply(session, {}, Ping{}), void();
  }
}

void JobWorld::fresh_call(const SessionId& session) {
  std::uint64_t& next = next_.try_emplace(session, 1).first->second;
  core::CallId call;
  call.sequence = next++;
  call.fingerprint = call.sequence;
  // Nothing that has no answer is acknowledged, and sometimes less than could be.
  const auto oldest = waiting_.lower_bound({session, 0});
  const bool waits = oldest != waiting_.end() && oldest->first == session;
  const std::uint64_t could = waits ? oldest->second : call.sequence;
  call.acked_below = could - std::min<std::uint64_t>(could, in_.below(8));
  const Request request = draw_.request();
  // Hello and ping have no sequence of their own.
  if (std::holds_alternative<Hello>(request)) return hello(session, std::get<Hello>(request));
  if (!is_fleeting(session)) asked_[{session, call.sequence}] = {request, call.fingerprint, {}, 0};
  apply(session, call, request);
}

void JobWorld::repeat() {
  if (asked_.empty()) return;
  auto at = asked_.begin();
  std::advance(at, in_.byte() % asked_.size());
  const CallKey key = at->first;
  const Asked asked = at->second;
  core::CallId call;
  call.sequence = key.second;
  call.fingerprint = asked.fingerprint;
  const bool acknowledged = key.second < acked_[key.first];
  const Reply* reply = apply(key.first, call, asked.request);
  // The job may have forgotten what was acknowledged, also that it was.
  if (!asked.first || reply == nullptr || acknowledged || !honest_) return;
  if (wire_form(info_of(asked.request).code, *reply) == *asked.first) return;
  C10DD_ASSERT(!*reply && reply->error().code == Code::session_unknown);
}

void JobWorld::hello(const SessionId& session, Hello hello) {
  hello.session = session;
  hello.fleeting = is_fleeting(session);
  hello.c10d = is_fleeting(session) || session.low == 3;
  const Reply* reply = apply(session, {}, hello);
  C10DD_ASSERT(reply != nullptr);
  if (*reply) connected_.insert(session);
}

/// Applies; the answer if there is one at once.
const Reply* JobWorld::apply(const SessionId& session, core::CallId call, const Request& request) {
  core::Origin from;
  from.session = session;
  call.arrived_ns = 1;  // comes back with an answer that was given at once
  const CallKey key{session, call.sequence};
  const OpInfo& op = info_of(request);
  open_.emplace(key, op.code);
  direct_.reset();
  const Revision before = job_->revision();
  const core::Effects effects = job_->apply(from, call, request, now_);
  const bool known = connected_.contains(session) || op.code == Hello::op.code;
  if (known) acked_[session] = std::max(acked_[session], call.acked_below);
  take(effects, before);
  if (!direct_) {
    C10DD_ASSERT(op.kind == OpKind::wait && known);
    waiting_.insert(key);
  } else if (direct_->has_value()) {
    if (const auto* cancel = std::get_if<Cancel>(&request)) {
      waiting_.erase({session, cancel->sequence});
    }
    const auto asked = asked_.find(key);
    const bool changed =
        effects.revision > before && effects.replies.back().evidence == core::Evidence::own_commit;
    // A call of any number may stand where another had been, which had changed nothing.
    const bool same = asked != asked_.end() && asked->second.fingerprint == call.fingerprint &&
                      info_of(asked->second.request).code == op.code;
    if (changed && op.dedup == Dedup::reply && same && !asked->second.first) {
      asked->second.first = wire_form(op.code, *direct_);
      asked->second.revision = effects.revision;
    }
    if (op.code == Goodbye::op.code) forget(session);
  }
  C10DD_ASSERT(job_->stats().waiters == waiting_.size());
  return direct_ ? &*direct_ : nullptr;
}

void JobWorld::take(core::Effects effects, Revision before) {
  C10DD_ASSERT(effects.revision == job_->revision());
  C10DD_ASSERT(effects.revision == before + (effects.rows.empty() ? 0 : 1));
  job_->append_reply_rows(effects.rows);
  if (!effects.rows.empty()) unsynced_.emplace_back(effects.revision, effects.rows);
  for (const core::OutgoingReply& reply : effects.replies) {
    C10DD_ASSERT(!honest_ || reply.observed <= effects.revision);
    take(reply);
  }
}

void JobWorld::take(const core::OutgoingReply& reply) {
  const CallKey key{reply.to, reply.sequence};
  const auto asked = open_.find({key, reply.op});
  C10DD_ASSERT(asked != open_.end());
  open_.erase(asked);
  wire_form(reply.op, reply.result);
  if (reply.arrived_ns == 0) {
    C10DD_ASSERT(waiting_.erase(key) == 1);
  } else {
    C10DD_ASSERT(!direct_);
    direct_ = reply.result;
  }
}

void JobWorld::disconnect(const SessionId& session) {
  if (connected_.erase(session) == 0) return;
  const Revision before = job_->revision();
  take(job_->disconnect(session, now_), before);
  std::erase_if(waiting_, [&](const CallKey& key) { return key.first == session; });
  std::erase_if(open_, [&](const auto& call) { return call.first.first == session; });
  if (is_fleeting(session)) forget(session);
  C10DD_ASSERT(job_->stats().waiters == waiting_.size());
}

/// The session has ended: it is a new one when it comes again.
void JobWorld::forget(const SessionId& session) {
  connected_.erase(session);
  next_.erase(session);
  acked_.erase(session);
  std::erase_if(asked_, [&](const auto& call) { return call.first.first == session; });
  std::erase_if(open_, [&](const auto& call) { return call.first.first == session; });
}

void JobWorld::pass(Duration time) {
  now_ += time;
  for (int turns = 0; job_->next_deadline().value_or(TimePoint::max()) <= now_; ++turns) {
    C10DD_ASSERT(turns < 4);
    const Revision before = job_->revision();
    take(job_->tick(now_), before);
  }
  C10DD_ASSERT(job_->stats().waiters == waiting_.size());
}

void JobWorld::commit(std::size_t batches) {
  for (; batches > 0 && !unsynced_.empty(); --batches) {
    durable_ = unsynced_.front().first;
    for (const RowView row : unsynced_.front().second) put(durable_rows_, row);
    unsynced_.pop_front();
  }
  job_->durable(durable_);
}

JobWorld::Rows JobWorld::rows() const {
  Rows rows = durable_rows_;
  for (const auto& [revision, batch] : unsynced_) {
    for (const RowView row : batch) put(rows, row);
  }
  return rows;
}

std::unique_ptr<core::Job> JobWorld::load(const Rows& rows, Revision revision) {
  auto job = std::make_unique<core::Job>(1, Stamp{kIncarnation, epoch_++, revision}, quotas_);
  for (const auto& [key, value] : rows) {
    if (!job->restore({Row::Kind::put, key, value})) return nullptr;
  }
  if (!job->resume(now_)) return nullptr;
  return job;
}

/// The daemon dies and loses what was not durable, or stops in order.
void JobWorld::restart() {
  for (const SessionId& session : std::set(connected_)) disconnect(session);
  const bool clean = unsynced_.empty();
  unsynced_.clear();
  std::unique_ptr<core::Job> restored = load(durable_rows_, durable_);
  C10DD_ASSERT(restored != nullptr);
  if (clean && honest_ && !few_sessions_) {
    compare_with(*restored);
    restored = load(durable_rows_, durable_);
  }
  job_ = std::move(restored);
  connected_.clear();
  waiting_.clear();
  open_.clear();
  for (auto& [key, asked] : asked_) {
    if (asked.revision > durable_) asked.first.reset();
  }
}

/// Both hold the same keys, queues and lists of members. Asking changes both.
void JobWorld::compare_with(core::Job& restored) {
  const auto ask = [&](core::Job& job, const Request& request) {
    core::Origin from;
    from.session = kProbe;
    const core::Effects effects = job.apply(from, {}, request, now_);
    C10DD_ASSERT(effects.replies.size() == 1);
    return effects.replies[0].result;
  };
  const auto same = [&](const Request& request) {
    const Reply mine = ask(*job_, request);
    const std::uint8_t op = info_of(request).code;
    C10DD_ASSERT(wire_form(op, mine) == wire_form(op, ask(restored, request)));
    return mine;
  };
  const core::JobStats a = job_->stats();
  const core::JobStats b = restored.stats();
  C10DD_ASSERT(a.keys == b.keys && a.bytes == b.bytes && a.queue_items == b.queue_items);
  C10DD_ASSERT(a.queue_bytes == b.queue_bytes && a.barriers_pending == b.barriers_pending);
  Hello hello;
  hello.session = kProbe;
  C10DD_ASSERT(ask(*job_, hello) && ask(restored, hello));
  const Reply page = same(List{});
  if (page) same(MultiGet{std::get<KeyPage>(*page).keys, Duration{0}});
  for (const char* queue : {"a", "b", "ab", "world"}) same(QueueLength{queue});
  for (const std::string_view group : kGroups) same(ReadMembers{std::string(group), 0, 0});
}

bool JobWorld::replace(Rows rows) {
  const Revision revision = job_->revision();
  std::unique_ptr<core::Job> job = load(rows, revision);
  if (!job) return false;
  job_ = std::move(job);
  honest_ = false;
  durable_rows_ = std::move(rows);
  durable_ = revision;
  unsynced_.clear();
  connected_.clear();
  waiting_.clear();
  open_.clear();
  asked_.clear();
  return true;
}

void JobWorld::finish() {
  for (const SessionId& session : std::set(connected_)) {
    if (is_fleeting(session)) disconnect(session);  // its waits may have no end
  }
  pass(limits::kTimeoutMax + std::chrono::hours(24));
  C10DD_ASSERT(waiting_.empty());
  commit(unsynced_.size());
  restart();
}

}  // namespace c10dd::fuzz
