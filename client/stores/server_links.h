// SPDX-License-Identifier: Apache-2.0
// The connections of a store to its server, and what happens to a call whose connection is lost.
#pragma once

#include <unistd.h>

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "client/core/backoff.h"
#include "client/stores/store_server.h"
#include "protocol/format.h"
#include "protocol/wording.h"

namespace c10dd::client {

/// The time that a server has for a reply even if the limit of the call has passed.
inline constexpr std::chrono::seconds kReplyGrace{5};

/// Returns until when to wait for the reply to a request that the server does not hold back.
inline Clock::time_point reply_end(Clock::time_point end) {
  return std::max(end, Clock::now() + kReplyGrace);
}

/// Has a connection for each call that is made at the same time. Link has
///   is_usable()  whether the next call may use the connection
///   is_lost()    whether the connection was lost, so that the outcome of a request is unknown:
///                it has ended, or what came is not the reply to the request
/// A failure with code unavailable is repeated, unless it is a change on a lost connection.
/// Thread-safe.
template <class Link>
class ServerLinks {
 public:
  using Open = std::function<Result<std::unique_ptr<Link>>(Clock::time_point end)>;

  /// `server` is its kind and address, and `remedy` what to do if it is not there, for texts.
  ServerLinks(std::string server, std::string remedy, Open open)
      : server_(std::move(server)), remedy_(std::move(remedy)), open_(std::move(open)) {}

  /// Returns ask(link), of a request that changes nothing.
  template <class Ask>
  std::invoke_result_t<Ask, Link&> read(Clock::time_point end, const Ask& ask) {
    return run(end, false, ask);
  }

  /// Returns ask(link), of a request that may change the store.
  template <class Ask>
  std::invoke_result_t<Ask, Link&> change(Clock::time_point end, const Ask& ask) {
    return run(end, true, ask);
  }

  /// Returns the failure of a change whose reply was lost, for this reason.
  Failure unknown(const Failure& reason) const {
    return failure(Code::outcome_unknown,
                   "{}: {}; the change may or may not have been made: read the state before you "
                   "repeat it",
                   server_, reason.detail);
  }

 private:
  /// Returns the failure with the name of the server before its text, unless that has it.
  Failure named(Failure reason) const {
    if (!reason.detail.starts_with(server_)) reason.detail = server_ + ": " + reason.detail;
    return reason;
  }

  template <class Ask>
  std::invoke_result_t<Ask, Link&> run(Clock::time_point end, bool changes, const Ask& ask) {
    const Clock::time_point begin = Clock::now();
    Backoff backoff(mixed(static_cast<std::uint64_t>(begin.time_since_epoch().count()) ^
                          static_cast<std::uint64_t>(::getpid())));
    while (true) {
      Failure reason;
      if (Result<std::unique_ptr<Link>> link = take(end)) {
        auto result = ask(**link);
        const bool lost = (*link)->is_lost();
        give_back(std::move(*link));
        if (result) return result;
        reason = result.error();
        if (changes && lost) return unknown(reason);
        if (lost && reason.code != Code::unavailable) return named(reason);
        if (reason.code != Code::unavailable) return result;
      } else {
        reason = link.error();
        if (reason.code != Code::unavailable && reason.code != Code::not_found) {
          return named(reason);
        }
      }
      const Clock::time_point next = Clock::now() + backoff.next();
      if (next >= end) {
        return failure(Code::timed_out, "timed out after {}: {}: {}; {}",
                       human(std::max(Clock::now(), end) - begin), server_, reason.detail, remedy_);
      }
      std::this_thread::sleep_until(next);
    }
  }

  Result<std::unique_ptr<Link>> take(Clock::time_point end) {
    while (true) {
      std::unique_ptr<Link> link;
      {
        const std::lock_guard lock(mutex_);
        if (idle_.empty()) break;
        link = std::move(idle_.back());
        idle_.pop_back();
      }
      if (link->is_usable()) return link;
    }
    return open_(end);
  }

  void give_back(std::unique_ptr<Link> link) {
    if (!link->is_usable()) return;
    const std::lock_guard lock(mutex_);
    idle_.push_back(std::move(link));
  }

  const std::string server_;
  const std::string remedy_;
  const Open open_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Link>> idle_;
};

}  // namespace c10dd::client
