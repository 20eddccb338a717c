// SPDX-License-Identifier: Apache-2.0
// Decides when to announce that the client has lost its session with the daemon or has a session
// again. The program gets every announcement. Users get lines on stderr only if the client has no
// session for 2 s or longer: the first line after 2 s, then one every 30 s, and one when the client
// has a session again. Pure.
#pragma once

#include <chrono>
#include <optional>
#include <utility>

#include "protocol/types.h"

namespace c10dd::client {

struct Announcement {
  bool connected = false;
  bool to_people = false;  ///< if true, announce to users, too; if false, only to the program
  Duration away{0};        ///< time without a session, up to this announcement
};

class Announcements {
 public:
  static constexpr Duration kFirst = std::chrono::seconds(2);
  static constexpr Duration kAgain = std::chrono::seconds(30);

  explicit Announcements(TimePoint now) : since_(now), due_(now + kFirst) {}

  /// Returns the announcement that is due, if any. Must be called after every event of the
  /// connection, and at the time given by due().
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

  /// Returns the time to call next() if nothing changes before; empty while connected.
  std::optional<TimePoint> due() const { return connected_ ? std::nullopt : std::optional(due_); }

 private:
  bool connected_ = false;
  bool printed_ = false;
  TimePoint since_;
  TimePoint due_;
};

}  // namespace c10dd::client
