// SPDX-License-Identifier: Apache-2.0
// Reads any bytes as a grants file: the result is either grants, or a refusal that names a line.
// Also draws grants from the special characters, and compares the roles of each principal with
// those that an independent implementation of docs/security.md computes.
#include "daemon/config/grants_file.h"

#include <algorithm>
#include <optional>

#include "daemon/config/config_file.h"
#include "protocol/utf8.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/shown.h"
#include "tests/fuzz/target.h"

namespace {

namespace core = c10dd::core;
namespace daemon = c10dd::daemon;
using c10dd::fuzz::Input;

constexpr std::string_view kPieces[] = {"a", "b", "ab", ".",   ":", "-",     "*",     "{1}",
                                        "{", "}", "/",  "{2}", "1", "site:", "cert:", "x"};
constexpr std::string_view kRoles[] = {"viewer", "trainer", "admin"};
constexpr std::string_view kIssuer =
    "[[issuer]]\nname = \"site\"\nissuer = \"i\"\naudience = \"c10dd\"\njwks = \"/k.json\"\n";

std::string draw(Input& in, std::size_t most) {
  std::string text;
  for (std::size_t count = in.below(most + 1); count > 0; --count) text += in.one_of(kPieces);
  return text;
}

std::string draw_principal(Input& in, std::size_t most) {
  const std::string issuer = in.below(2) == 0 ? "site:" : "cert:";
  return issuer + draw(in, most);
}

/// Whether a text fits `who`, and what its first * has matched: one or more characters, none of
/// which is the one that follows. Tries each length.
std::optional<std::string> matched(std::string_view who, std::string_view text) {
  if (who.empty()) return text.empty() ? std::optional<std::string>("") : std::nullopt;
  if (who.front() != '*') {
    if (text.empty() || text.front() != who.front()) return std::nullopt;
    return matched(who.substr(1), text.substr(1));
  }
  for (std::size_t length = 1; length <= text.size(); ++length) {
    const std::string_view taken = text.substr(0, length);
    if (who.size() > 1 && taken.find(who[1]) != taken.npos) return std::nullopt;
    if (matched(who.substr(1), text.substr(length))) return std::string(taken);
  }
  return std::nullopt;
}

/// The pattern of jobs for a principal; empty: it is none for him.
std::string jobs_for(std::string jobs, const std::string& first) {
  const std::size_t at = jobs.find("{1}");
  if (at == jobs.npos) return jobs;
  const std::string after = jobs.substr(at + 3, 1);
  const bool escapes =
      first.find('*') != first.npos || (!after.empty() && first.find(after) != first.npos);
  return escapes ? "" : jobs.substr(0, at) + first + jobs.substr(at + 3);
}

bool fits(const std::string& jobs, std::string_view job) {
  if (jobs.ends_with('*')) return job.starts_with(jobs.substr(0, jobs.size() - 1));
  return !jobs.empty() && jobs == job;
}

/// What the grants give, by the page.
struct Given {
  core::Role in = core::Role::none, everywhere = core::Role::none, anywhere = core::Role::none;
};
Given given(const std::vector<core::Grant>& grants, std::string_view who, std::string_view job) {
  Given found;
  for (const core::Grant& grant : grants) {
    const std::optional<std::string> first = matched(grant.who, who);
    if (!first) continue;
    for (const std::string& each : grant.jobs) {
      const std::string jobs = jobs_for(each, *first);
      if (jobs.empty()) continue;
      found.anywhere = std::max(found.anywhere, grant.role);
      if (jobs == "*") found.everywhere = std::max(found.everywhere, grant.role);
      if (fits(jobs, job)) found.in = std::max(found.in, grant.role);
    }
  }
  return found;
}

std::string file_of(const std::vector<core::Grant>& grants) {
  std::string text(kIssuer);
  for (const core::Grant& grant : grants) {
    std::string jobs;
    for (const std::string& one : grant.jobs) jobs += daemon::toml_string(one) + ", ";
    text += "[[grant]]\nwho = " + daemon::toml_string(grant.who) + "\nrole = \"" +
            std::string(core::name_of(grant.role)) + "\"\njobs = [" + jobs + "]\n";
  }
  return text;
}

void take_drawn(Input& in) {
  std::vector<core::Grant> grants;
  for (std::size_t count = 1 + in.below(3); count > 0; --count) {
    std::string who = draw_principal(in, 5);
    std::vector<std::string> jobs{draw(in, 4)};
    if (in.below(2) == 1) jobs.push_back(draw(in, 4));
    grants.push_back({std::move(who), core::role_named(in.one_of(kRoles)), std::move(jobs)});
  }
  const auto file = daemon::grants_in(file_of(grants), "g.toml");
  c10dd::fuzz::expect_shown(file);
  if (!file) return;
  C10DD_ASSERT(file->issuers.size() == 1 && file->revoked.empty());
  while (!in.empty()) {
    const std::string who = draw_principal(in, 7);
    const std::string job = draw(in, 6);
    const core::JobRoles roles = file->grants.roles_of(who);
    const Given expected = given(grants, who, job);
    C10DD_ASSERT(roles.in(job) == expected.in && roles.everywhere() == expected.everywhere);
    C10DD_ASSERT(roles.anywhere() == expected.anywhere);
  }
}

void take_any(std::string_view text) {
  const auto file = daemon::grants_in(text, "g.toml");
  c10dd::fuzz::expect_shown(file);
  if (!file) {
    C10DD_ASSERT(file.error().code == c10dd::Code::invalid_argument);
    constexpr std::string_view kBegin = "grants g.toml:";
    C10DD_ASSERT(file.error().detail.starts_with(kBegin));
    const auto line = std::strtoul(file.error().detail.c_str() + kBegin.size(), nullptr, 10);
    C10DD_ASSERT(line >= 1 && line <= 1 + static_cast<std::size_t>(std::ranges::count(text, '\n')));
    return;
  }
  C10DD_ASSERT(c10dd::is_utf8(text));
  for (const std::string_view nobody : {"", "alice", ":", "*", "cert", "{1}"}) {
    C10DD_ASSERT(file->grants.roles_of(nobody).anywhere() == core::Role::none);
  }
  for (const daemon::IssuerEntry& one : file->issuers) {
    C10DD_ASSERT(one.name != "cert" && one.name.find(':') == std::string::npos);
    C10DD_ASSERT(!one.issuer.empty() && !one.audience.empty() && !one.jwks.empty());
    C10DD_ASSERT(std::ranges::count(file->issuers, one.name, &daemon::IssuerEntry::name) == 1);
  }
}

}  // namespace

C10DD_FUZZ(grants_file) {
  Input in(data, size);
  if (in.below(2) == 0) {
    take_any(in.rest());
  } else {
    take_drawn(in);
  }
  return 0;
}
