// SPDX-License-Identifier: Apache-2.0
// Decides when to announce that the client has no session with the daemon, and that it has one
// again. The program is notified of every change. People are notified, by a line on stderr, after
// 2 s without a session, then every 30 s, and when such an absence ends. Pure.
#pragma once

#include <chrono>
#include <optional>
#include <utility>

#include "protocol/types.h"

namespace c10dd::client {

struct Announcement {
  bool connected = false;
  bool to_people = false;  ///< print it, too; else only the program is notified
  Duration away{0};        ///< how long there has been no session
};

class Announcements {
 public:
  static constexpr Duration kFirst = std::chrono::seconds(2);
  static constexpr Duration kAgain = std::chrono::seconds(30);

  explicit Announcements(TimePoint now) : since_(now), due_(now + kFirst) {}

  /// Returns what to announce now. Call it after every step, and at due().
  std::optional<Announcement> next(bool connected, TimePoint now) {
    if (connected != std::exchange(connected_, connected)) {
      if (connected) return Announcement{true, std::exchange(printed_, false), now - since_};
      since_ = now;
      due_ = now + kFirst;
      return Announcement{};
    }
    if (connected || now < due_) return std::nullopt;
    due_ = now + kAgain;
    printed_ = true;
    return Announcement{false, true, now - since_};
  }

  bool connected() const { return connected_; }

  /// Returns when next() will announce something even if nothing changes.
  std::optional<TimePoint> due() const { return connected_ ? std::nullopt : std::optional(due_); }

 private:
  bool connected_ = false;
  bool printed_ = false;
  TimePoint since_;
  TimePoint due_;
};

}  // namespace c10dd::client
