// SPDX-License-Identifier: Apache-2.0
// A Job, a few clients, an engine and a clock, driven by a fuzzer's bytes. Judges every effect:
// what a client, a commit gate and an engine rely on.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "daemon/core/job/job.h"
#include "tests/fuzz/draw.h"

namespace c10dd::fuzz {

class JobWorld {
 public:
  using Rows = std::map<Bytes, Bytes>;

  explicit JobWorld(Input& in);

  /// One decision: a request, a repeat, a lost connection, time, a commit, a restart.
  void step();
  /// Every wait has an end, and the state that is left is one that can be loaded.
  void finish();

  /// Of the newest state.
  Rows rows() const;
  /// The job's rows are these now; whether the job takes them. They may be any.
  bool replace(Rows rows);

 private:
  using CallKey = std::pair<SessionId, std::uint64_t>;
  struct Asked {
    Request request;
    std::uint64_t fingerprint = 0;
    std::optional<Bytes> first;  ///< its answer, if it changed the job
    Revision revision = 0;       ///< that holds it
  };

  void fresh_call(const SessionId& session);
  void repeat();
  void hello(const SessionId& session, Hello hello);
  void disconnect(const SessionId& session);
  void pass(Duration time);
  void commit(std::size_t batches);
  void restart();
  std::unique_ptr<core::Job> load(const Rows& rows, Revision revision);
  void compare_with(core::Job& restored);

  const Reply* apply(const SessionId& session, core::CallId call, const Request& request);
  void take(core::Effects effects, Revision before);
  void take(const core::OutgoingReply& reply);
  void forget(const SessionId& session);

  Input& in_;
  Draw draw_;
  core::Quotas quotas_;
  bool few_sessions_ = false;
  bool honest_ = true;  // all rows are the job's own
  Epoch epoch_ = 1;
  TimePoint now_;
  std::unique_ptr<core::Job> job_;
  Rows durable_rows_;
  Revision durable_ = 0;
  std::deque<std::pair<Revision, c10dd::Rows>> unsynced_;

  std::set<SessionId> connected_;
  std::map<SessionId, std::uint64_t> next_;   // sequence
  std::map<SessionId, std::uint64_t> acked_;  // below
  std::map<CallKey, Asked> asked_;
  std::multiset<std::pair<CallKey, std::uint8_t>> open_;  // asked and not answered, by operation
  std::set<CallKey> waiting_;
  std::optional<Reply> direct_;  // the answer that the call itself gave
};

/// How an answer goes over the wire; it must come back from there.
Bytes wire_form(std::uint8_t op, const Reply& reply);

}  // namespace c10dd::fuzz
