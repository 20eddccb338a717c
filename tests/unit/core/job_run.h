// SPDX-License-Identifier: Apache-2.0
// A job whose time moves as the test says, and the diagnoses that it reports.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "daemon/core/job/job.h"

namespace c10dd::core {

class JobRun : public testing::Test {
 protected:
  /// Opens session `n`, of process 100 + n on host-n, as rank n - 1.
  void open(std::uint64_t n) { open(n, static_cast<std::int64_t>(n) - 1); }
  void open(std::uint64_t n, std::int64_t rank) {
    Hello hello = hello_of(n);
    hello.rank = rank;
    ask(n, hello);
  }
  /// Opens session `n` of a client of TCPStore, which joins its launch.
  void open_stock(std::uint64_t n, bool fleeting = true) {
    Hello hello = hello_of(n);
    hello.fleeting = fleeting;
    hello.c10d = true;
    ask(n, hello);
    ask(n, Add{.key = "init/", .delta = 1, .lenient = true});
  }
  Hello hello_of(std::uint64_t n) const {
    Hello hello;
    hello.version_min = hello.version_max = kProtocolVersion;
    hello.session = id(n);
    hello.host = "host-" + std::to_string(n);
    hello.pid = 100 + n;
    return hello;
  }
  static SessionId id(std::uint64_t n) { return {1, n}; }

  Effects ask(std::uint64_t n, const Request& request) {
    const Origin from{.session = id(n), .connection = n};
    const std::uint64_t acked = sequence_ < 1'000 ? 0 : sequence_ - 500;
    return note(job_.apply(from, {.sequence = ++sequence_, .acked_below = acked}, request, now_));
  }
  void drop(std::uint64_t n) { note(job_.disconnect(id(n), now_)); }

  /// Lets time pass, with a heartbeat of these sessions every half second.
  void pass(Duration time, const std::vector<std::uint64_t>& beating = {}) {
    const TimePoint end = now_ + time;
    TimePoint beat = now_;
    while (now_ < end) {
      const TimePoint next = std::min(job_.next_deadline().value_or(end), beat + half_second());
      now_ = std::clamp(next, now_, end);
      if (now_ >= beat + half_second() || now_ == end) {
        beat = now_;
        for (const std::uint64_t n : beating) job_.heard(n, now_);
      }
      note(job_.tick(now_));
      if (job_.next_deadline() == now_) now_ += std::chrono::milliseconds(1);
    }
  }
  static constexpr Duration half_second() { return std::chrono::milliseconds(500); }

  const Diagnosis& diagnosis() const { return job_.diagnosis(); }
  std::string sentence() const { return diagnosis().sentence; }
  std::string state() const { return std::string(name_of(diagnosis().state)); }

  Barrier barrier(const std::string& name, Rank rank, std::uint32_t size,
                  Duration timeout = std::chrono::minutes(10)) const {
    Barrier one;
    one.name = name;
    one.rank = rank;
    one.world_size = size;
    one.timeout = timeout;
    return one;
  }

  Job job_{7, {}};
  TimePoint now_{std::chrono::hours(1)};
  std::uint64_t sequence_ = 0;
  std::vector<std::string> told_;  ///< the events about diagnoses
  std::vector<Failure> failures_;  ///< of all replies

 private:
  Effects note(Effects effects) {
    for (const Event& event : effects.events) {
      if (const auto* found = std::get_if<Diagnosed>(&event)) {
        told_.push_back(std::string(name_of(found->diagnosis.state)) + ": " +
                        found->diagnosis.sentence);
      } else if (const auto* ended = std::get_if<DiagnosisEnded>(&event)) {
        told_.push_back("ended: " + std::string(name_of(ended->kind)));
      }
    }
    for (const OutgoingReply& reply : effects.replies) {
      if (!reply.result) failures_.push_back(reply.result.error());
    }
    return effects;
  }
};

}  // namespace c10dd::core
