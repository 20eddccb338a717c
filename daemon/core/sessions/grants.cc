// SPDX-License-Identifier: Apache-2.0
#include "daemon/core/sessions/grants.h"

#include <algorithm>
#include <array>
#include <optional>

#include "protocol/format.h"
#include "protocol/limits.h"
#include "protocol/utf8.h"

namespace c10dd::core {
namespace {

constexpr std::array<std::string_view, 4> kRoles = {"none", "viewer", "trainer", "admin"};
constexpr std::string_view kMatched = "{1}";
constexpr std::size_t kMostJobs = 256;  // patterns of one grant

/// Returns what the first * of a pattern matches in a text; nothing if the text does not fit. A *
/// ends before the first character that follows it in the pattern.
std::optional<std::string_view> match(std::string_view pattern, std::string_view text) {
  std::optional<std::string_view> first;
  while (!pattern.empty()) {
    if (pattern.front() != '*') {
      if (text.empty() || text.front() != pattern.front()) return std::nullopt;
      text.remove_prefix(1);
    } else {
      const std::size_t length = pattern.size() == 1 ? text.size() : text.find(pattern[1]);
      if (length == text.npos || length == 0) return std::nullopt;
      if (!first) first = text.substr(0, length);
      text.remove_prefix(length);
    }
    pattern.remove_prefix(1);
  }
  if (!text.empty()) return std::nullopt;
  return first.value_or(std::string_view());
}

/// Puts what a * has matched into a job pattern; nothing if it may not stand there.
std::optional<std::string> filled(std::string jobs, std::string_view matched) {
  const std::size_t at = jobs.find(kMatched);
  if (at == jobs.npos) return jobs;
  const std::size_t after = at + kMatched.size();
  const bool ambiguous = after < jobs.size() && matched.find(jobs[after]) != matched.npos;
  if (ambiguous || matched.find('*') != matched.npos) return std::nullopt;
  return jobs.replace(at, kMatched.size(), matched);
}

/// Returns the first placeholder, such as {2}, that is not {1}; empty if there is none.
std::string_view unknown_placeholder(std::string_view jobs) {
  for (std::size_t at = jobs.find('{'); at != jobs.npos; at = jobs.find('{', at + 1)) {
    const std::size_t end = jobs.find_first_not_of("0123456789", at + 1);
    if (end == jobs.npos || end == at + 1 || jobs[end] != '}') continue;
    const std::string_view found = jobs.substr(at, end + 1 - at);
    if (found != kMatched) return found;
  }
  return {};
}

Result<void> check_jobs(const Grant& grant, std::string_view jobs) {
  if (const std::string_view other = unknown_placeholder(jobs); !other.empty()) {
    return failure(
        Code::invalid_argument,
        "unknown placeholder {}: only {} is replaced, by what the first * in who matches",
        printable_name(other), kMatched);
  }
  const std::size_t at = jobs.find(kMatched);
  if (at != jobs.npos) {
    const std::string_view rest = jobs.substr(at + kMatched.size());
    if (grant.who.find('*') == std::string::npos) {
      return failure(Code::invalid_argument, "{} stands for the first * in who, which has none",
                     kMatched);
    }
    if (rest.starts_with('*')) {
      return failure(Code::invalid_argument,
                     "{}* would match the jobs of other principals, too; write for example {}.*",
                     kMatched, kMatched);
    }
    if (rest.find(kMatched) != rest.npos) {
      return failure(Code::invalid_argument, "{} may stand once in a pattern", kMatched);
    }
  }
  std::string example(jobs);
  if (at != jobs.npos) example.replace(at, kMatched.size(), "x");
  const Result<JobPattern> good = JobPattern::of(example);
  return good ? Result<void>() : good.error();
}

Result<void> check(const Grant& grant) {
  if (grant.who.empty() || grant.who.size() > limits::kNameBytes) {
    return failure(Code::invalid_argument, "who has {} bytes, but needs 1 to {}", grant.who.size(),
                   limits::kNameBytes);
  }
  if (grant.who.find("**") != std::string::npos) {
    return failure(Code::invalid_argument, "who has ** in it; write one *");
  }
  if (grant.role == Role::none) {
    return failure(Code::invalid_argument, "its role must be viewer, trainer or admin");
  }
  if (grant.jobs.empty() || grant.jobs.size() > kMostJobs) {
    return failure(Code::invalid_argument, "jobs has {} patterns, but needs 1 to {}",
                   grant.jobs.size(), kMostJobs);
  }
  for (const std::string& jobs : grant.jobs) {
    if (Result<void> good = check_jobs(grant, jobs); !good) return good;
  }
  return {};
}

}  // namespace

std::string_view name_of(Role role) { return kRoles.at(static_cast<std::size_t>(role)); }

Role role_named(std::string_view name) {
  const auto found = std::ranges::find(kRoles, name);
  return found == kRoles.end() ? Role::none : static_cast<Role>(found - kRoles.begin());
}

Access access_of(Role role) {
  if (role == Role::admin) return Access::admin;
  return role == Role::trainer ? Access::join : Access::observe;
}

Role JobRoles::in(std::string_view job) const {
  Role highest = Role::none;
  for (const auto& [jobs, role] : all_) {
    if (jobs.fits(job)) highest = std::max(highest, role);
  }
  return highest;
}

Role JobRoles::everywhere() const {
  Role highest = Role::none;
  for (const auto& [jobs, role] : all_) {
    if (jobs.is_everything()) highest = std::max(highest, role);
  }
  return highest;
}

Role JobRoles::anywhere() const {
  Role highest = Role::none;
  for (const auto& [jobs, role] : all_) highest = std::max(highest, role);
  return highest;
}

Result<Grants> Grants::of(std::vector<Grant> grants) {
  for (std::size_t at = 0; at < grants.size(); ++at) {
    const Result<void> good = check(grants[at]);
    if (good) continue;
    return failure(Code::invalid_argument, "grant {} (who = \"{}\"): {}", at + 1,
                   printable(grants[at].who, limits::kNameBytes), good.error().detail);
  }
  Grants made;
  made.all_ = std::move(grants);
  return made;
}

JobRoles Grants::roles_of(std::string_view principal) const {
  JobRoles roles{std::string(principal)};
  for (const Grant& grant : all_) {
    const auto matched = match(grant.who, principal);
    if (!matched) continue;
    for (const std::string& jobs : grant.jobs) {
      const auto text = filled(jobs, *matched);
      const Result<JobPattern> pattern = JobPattern::of(text.value_or(""));
      if (pattern) roles.add(*pattern, grant.role);
    }
  }
  return roles;
}

}  // namespace c10dd::core
