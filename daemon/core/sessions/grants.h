// SPDX-License-Identifier: Apache-2.0
// Grants: who may do what in which jobs. Pure; the caller has checked who somebody is.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "protocol/error.h"
#include "protocol/job_pattern.h"
#include "protocol/op_info.h"

namespace c10dd::core {

/// What somebody may do in a job. A later role may do all that an earlier one may.
enum class Role : std::uint8_t {
  none,
  viewer,   ///< reads
  trainer,  ///< also writes, joins, leases endpoints and ends runs
  admin,    ///< also moves and removes jobs
};

std::string_view name_of(Role role);
/// Returns the role with this name; `none` if there is no such role.
Role role_named(std::string_view name);
/// Returns the operations that a role may send: those whose access is not above this one.
Access access_of(Role role);

using c10dd::JobPattern;

/// The roles of one principal.
class JobRoles {
 public:
  /// `principal`: for the log.
  explicit JobRoles(std::string principal = {}) : principal_(std::move(principal)) {}

  const std::string& principal() const { return principal_; }
  void add(JobPattern jobs, Role role) { all_.emplace_back(std::move(jobs), role); }
  /// Returns the highest role in a job.
  Role in(std::string_view job) const;
  /// Returns the highest role in all jobs, which the routes of the whole daemon need.
  Role everywhere() const;
  /// Returns the highest role in any job.
  Role anywhere() const;

 private:
  std::string principal_;
  std::vector<std::pair<JobPattern, Role>> all_;
};

/// An entry of the grants file.
struct Grant {
  /// Principals, with * for any characters but the one that follows it in this text.
  std::string who;
  Role role = Role::none;
  /// Job patterns. {1} in them stands for what the first * of `who` has matched. It may not contain
  /// the character that follows {1}: so jobs "{1}.*" of principal "a" are none of those of "a.b".
  std::vector<std::string> jobs;
};

/// All grants. Immutable. Thread-safe.
class Grants {
 public:
  Grants() = default;
  /// Fails with invalid_argument. The text names the grant by its number, from 1, and says what is
  /// wrong.
  static Result<Grants> of(std::vector<Grant> grants);

  /// Returns what all grants together give to a principal.
  JobRoles roles_of(std::string_view principal) const;

 private:
  std::vector<Grant> all_;
};

}  // namespace c10dd::core
