// SPDX-License-Identifier: Apache-2.0
// One call in a history: the request, the reply, and the times of both. The simulator and the kill
// loop both record such calls, so that the same judges work for both.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "protocol/ops.h"

namespace c10dd::history {

/// One call of a client process.
struct Op {
  std::uint32_t client = 0;  ///< number of the process
  std::string job;
  std::uint64_t launch = 0;    ///< of the job that the process belongs to
  SessionId session;           ///< with `sequence`, identifies the call on the wire, if recorded
  std::uint64_t sequence = 0;  ///< 0: it was never sent
  Request request;
  std::uint64_t invoked = 0;   ///< order: a count of events, or a time that all processes share
  std::uint64_t answered = 0;  ///< order; 0: never
  TimePoint invoked_at;
  TimePoint answered_at;
  std::optional<Reply> reply;

  bool good() const { return reply && reply->has_value(); }
  /// Returns the code of the failure; ok if the call succeeded or was never answered.
  Code code() const { return reply && !*reply ? reply->error().code : Code::ok; }
  /// Returns true if the reply, or its absence, leaves open whether the call was applied.
  bool open_ended() const;
  /// Returns the body of a good reply.
  template <class Body>
  const Body& told() const {
    return std::get<Body>(**reply);
  }
};

using Ops = std::vector<const Op*>;

/// Returns a call that a test writes down. Without a reply the process was killed before it.
inline Op written_call(std::uint32_t client, Request request, std::uint64_t invoked,
                       std::uint64_t answered, std::optional<Reply> reply) {
  Op op;
  op.client = client;
  op.request = std::move(request);
  op.invoked = invoked;
  op.answered = answered;
  op.reply = std::move(reply);
  return op;
}

/// Returns operation, key and reply as text for people.
std::string describe(const Op& op);
std::string describe(const Reply& reply);

}  // namespace c10dd::history
