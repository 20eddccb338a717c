// SPDX-License-Identifier: Apache-2.0
// When it is said that there is no session with the daemon, and that there is one again. Each
// change is said once; a person is told after 2 s without a session, again every 30 s, and when it
// is over. Pure.
#pragma once

#include <chrono>
#include <optional>
#include <utility>

#include "protocol/types.h"

namespace c10dd::client {

struct Announcement {
  bool connected = false;
  bool to_people = false;  ///< not only to the program
  Duration away{0};        ///< how long there was no session
};

class Announcements {
 public:
  static constexpr Duration kFirst = std::chrono::seconds(2);
  static constexpr Duration kAgain = std::chrono::seconds(30);

  explicit Announcements(TimePoint now) : since_(now), due_(now + kFirst) {}

  /// What is to be said now. To be asked after every step, and at due().
  std::optional<Announcement> next(bool connected, TimePoint now) {
    if (connected != std::exchange(connected_, connected)) {
      if (connected) return Announcement{true, std::exchange(told_people_, false), now - since_};
      since_ = now;
      due_ = now + kFirst;
      return Announcement{};
    }
    if (connected || now < due_) return std::nullopt;
    due_ = now + kAgain;
    told_people_ = true;
    return Announcement{false, true, now - since_};
  }

  bool connected() const { return connected_; }

  /// When next() has something to say although nothing changes.
  std::optional<TimePoint> due() const { return connected_ ? std::nullopt : std::optional(due_); }

 private:
  bool connected_ = false;
  bool told_people_ = false;
  TimePoint since_;
  TimePoint due_;
};

}  // namespace c10dd::client
