// SPDX-License-Identifier: Apache-2.0
// What a client process of the kill loop writes down: every call before it is made and after its
// answer, one line each with one write(2), so that the history survives its own SIGKILL.
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

/// Of everything that waits for somebody else.
inline constexpr std::chrono::seconds kPatience{40};

/// Time of all processes of this machine, in nanoseconds.
std::uint64_t now();

/// A call that is made now.
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

/// It failed as this work may: nothing was there in the time that it was given.
bool found_nothing(const Op& op);

/// What one process did in one round.
struct History {
  std::vector<Op> ops;
  std::vector<std::string> flaws;   ///< that the process saw by itself
  std::uint64_t reissued = 0;       ///< calls that its clients sent again, since they exist
  std::uint64_t sessions_lost = 0;  ///< likewise
};

/// Writes a history. Thread-safe.
class Recorder {
 public:
  /// Throws when the file cannot be made.
  Recorder(const std::string& path, std::uint32_t client);
  ~Recorder();
  Recorder(const Recorder&) = delete;

  /// Makes a call: writes it down, runs `ask` as finish_call does, writes down the answer.
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

/// Throws when the file is not what a Recorder writes; a last line without an end is left out.
History read_history(const std::string& path, std::uint32_t client);

}  // namespace c10dd::torture
