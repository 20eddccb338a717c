// SPDX-License-Identifier: Apache-2.0
#include "daemon/config/authenticator.h"

#include <algorithm>
#include <utility>

#include "protocol/format.h"
#include "protocol/limits.h"
#include "protocol/utf8.h"

namespace c10dd::daemon {

void Authenticator::replace(std::shared_ptr<const AccessRules> access) {
  const std::lock_guard lock(mutex_);
  access_ = std::move(access);
  known_.clear();
  known_bytes_ = 0;
  with_former_.clear();
  replaced_ = now_();
}

tls::WallTime Authenticator::replaced() const {
  const std::lock_guard lock(mutex_);
  return replaced_;
}

std::vector<std::string> Authenticator::with_former_ca(tls::WallTime since) const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> names;
  for (const auto& [name, last] : with_former_) {
    if (last >= since) names.push_back(name);
  }
  return names;
}

/// Notes who shows a token of a former CA. Needs the lock.
void Authenticator::note(const Principal& found, tls::WallTime now) const {
  if (!found.is_of_former_ca) return;
  if (with_former_.size() >= kTokens) with_former_.clear();
  with_former_[found.name] = now;
}

std::shared_ptr<const AccessRules> Authenticator::access() const {
  const std::lock_guard lock(mutex_);
  return access_;
}

Result<Principal> Authenticator::principal(std::string_view token,
                                           const std::optional<tls::Certificate>& shown,
                                           const std::string& refused) const {
  const tls::WallTime now = now_();
  std::shared_ptr<const AccessRules> access;
  {
    const std::lock_guard lock(mutex_);
    access = access_;
    const auto known = known_.find(std::string(token));
    if (known != known_.end() && now <= known->second.ends) {
      note(known->second, now);
      return known->second;
    }
  }
  if (token.empty()) {
    if (shown) return access->by_certificate(*shown, now);
    if (!refused.empty()) {
      return failure(Code::unauthenticated,
                     "{}, or set C10DD_TOKEN_FILE to a token of this cluster", refused);
    }
    return failure(Code::unauthenticated,
                   "this daemon asks who its clients are, and this one sends no token; set "
                   "C10DD_TOKEN_FILE to a token of this cluster");
  }
  Result<Principal> found = access->by_token(token, now);
  if (!found) return found;
  const std::lock_guard lock(mutex_);
  if (known_.size() >= kTokens || known_bytes_ + token.size() > kTokenBytes) {
    known_.clear();
    known_bytes_ = 0;
  }
  note(*found, now);
  if (access == access_) {
    const bool added = known_.insert_or_assign(std::string(token), *found).second;
    if (added) known_bytes_ += token.size();
  }
  return found;
}

Result<core::Caller> Authenticator::caller(std::string_view credential, const std::string& job,
                                           const std::optional<tls::Certificate>& shown,
                                           const std::string& refused) const {
  Result<Principal> found = principal(credential, shown, refused);
  if (!found) return found.error();
  const core::Role role = found->roles.in(job);
  if (role == core::Role::none) {
    return failure(Code::permission_denied,
                   "\"{}\" may do nothing in job \"{}\"; use a job of its token or grants, or ask "
                   "for a further one",
                   found->name, printable(job, limits::kNameBytes));
  }
  // An expired token is good for a while (kClockSkew), and must be asked for again all the more.
  const Duration left = std::max<Duration>(found->ends - now_(), std::chrono::milliseconds(1));
  return core::Caller{std::move(found->name), core::access_of(role), left};
}

}  // namespace c10dd::daemon
