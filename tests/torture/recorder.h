// SPDX-License-Identifier: Apache-2.0
// The history that a client process of the kill loop writes: a line before each call and a line
// after its reply, each with one write(2), so that the history survives a SIGKILL of the process.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "client/errors.h"
#include "tests/history/op.h"

namespace c10dd::torture {

using history::Op;

/// Time-out of calls that wait for another process or thread.
inline constexpr std::chrono::seconds kPatience{40};

/// Returns the time in nanoseconds, by a clock that all processes of this machine share.
std::uint64_t now();

/// Returns a new call that begins now.
Op begin_call(std::uint32_t client, Request request);

/// Runs `ask`, which makes the call through the SDK and returns its answer.
template <class Asked, class Ask>
void finish_call(Op& op, const Asked& request, Ask&& ask) {
  try {
    op.reply = Reply(ReplyBody(typename Asked::Body(ask(request))));
  } catch (const Error& e) {
    op.reply = Reply(failure(e.code(), e.what()));
  }
  op.answered = now();
}

/// Returns true if the call failed only because nothing was found within its time-out.
bool found_nothing(const Op& op);

/// What one process did in one round.
struct History {
  std::vector<Op> ops;
  std::vector<std::string> flaws;   ///< that the process saw by itself
  std::uint64_t reissued = 0;       ///< calls that its clients have sent again, in total
  std::uint64_t sessions_lost = 0;  ///< likewise
};

/// Writes a history. Thread-safe.
class Recorder {
 public:
  /// Throws when the file cannot be made.
  Recorder(const std::string& path, std::uint32_t client);
  ~Recorder();
  Recorder(const Recorder&) = delete;

  /// Makes a call: records the request, runs `ask` as finish_call() does, and records the reply.
  template <class Asked, class Ask>
  Op make(const Asked& request, Ask&& ask) {
    Op op = begin_call(client_, request);
    const std::uint64_t id = invoke(op);
    finish_call(op, request, std::forward<Ask>(ask));
    reply(id, op);
    return op;
  }

  void flaw(const std::string& text);
  void totals(std::uint64_t reissued, std::uint64_t sessions_lost);

 private:
  std::uint64_t invoke(const Op& op);
  void reply(std::uint64_t id, const Op& op);
  void write(std::string line);

  const std::uint32_t client_;
  const int file_;
  std::atomic<std::uint64_t> next_id_ = 1;
};

/// Reads the file of a Recorder. Throws if the file has another format; ignores an incomplete last
/// line.
History read_history(const std::string& path, std::uint32_t client);

}  // namespace c10dd::torture
