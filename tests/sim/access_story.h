// SPDX-License-Identifier: Apache-2.0
// Who may do what: each job has a principal, whose tokens are good in this job only, and expire.
// Sometimes the principal is refused for a while. The clients show newer tokens in time; a few show
// a token of another job, or none. The oracle: a daemon tells nobody anything of a job in which he
// has had no role for a while.
#pragma once

#include <map>
#include <string>

#include "daemon/core/effects.h"
#include "tests/sim/world.h"

namespace c10dd::sim {

class AccessStory {
 public:
  /// A daemon looks so often who must be asked again.
  static constexpr Duration kLook = std::chrono::seconds(1);
  /// A token is good for so long after its end.
  static constexpr Duration kSkew = std::chrono::seconds(2);

  /// `seed` is the only randomness of the story. `life`: of a token.
  AccessStory(World& world, std::uint64_t seed, Duration life)
      : world_(world), random_(seed), life_(life) {}

  /// Refuses principals, now and then, until stop().
  void begin();
  void stop();

  /// Returns the token of a job that is in the file now: all clients share it. Its issuer renews it
  /// when the old one has ended, and sometimes seconds later.
  std::string token(const std::string& job) const;

  /// Decides as a daemon with --tls does: core::NativeConnection::authenticate().
  Result<core::Caller> caller(const std::string& token, const std::string& job) const;

  /// Returns whether a client that has shown this token may be told something of the job, by a
  /// daemon that has looked at this time, or was to look and is paused.
  bool may_be_told(const std::string& token, const std::string& job, TimePoint looked) const;

 private:
  void refuse_somebody();

  World& world_;
  Random random_;
  const Duration life_;
  bool stopped_ = false;
  std::map<std::string, TimePoint> refused_;  ///< since when, by job
};

}  // namespace c10dd::sim
