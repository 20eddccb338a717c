// SPDX-License-Identifier: Apache-2.0
// Authenticator: says who has sent a hello or a request, by the newest AccessRules. A token is
// verified once, then remembered. Thread-safe: all loops ask it.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "daemon/config/access_rules.h"
#include "daemon/core/effects.h"

namespace c10dd::daemon {

class Authenticator {
 public:
  /// Tokens that are remembered. One more forgets all.
  static constexpr std::size_t kTokens = 16'384;
  /// The bytes of all their texts. More forget all, too: a token can be padded at will.
  static constexpr std::size_t kTokenBytes = 4 * 1024 * 1024;

  /// `now` returns the time of the wall.
  Authenticator(std::shared_ptr<const AccessRules> access, std::function<tls::WallTime()> now)
      : now_(std::move(now)), access_(std::move(access)) {}

  /// From now on this one decides, also about tokens that were remembered.
  void replace(std::shared_ptr<const AccessRules> access);
  std::shared_ptr<const AccessRules> access() const;

  /// Returns who has shown a token of a former CA since this time and since the last replace().
  std::vector<std::string> with_former_ca(tls::WallTime since) const;
  /// Returns the time of the last replace(), or when this object was made.
  tls::WallTime replaced() const;

  /// Returns the principal of a token; without one that of the certificate that the client has
  /// shown. Fails with unauthenticated if there is neither, or the token is not good. `refused`
  /// says why the certificate that the client has shown is not good; then `shown` has none.
  Result<Principal> principal(std::string_view token, const std::optional<tls::Certificate>& shown,
                              const std::string& refused = {}) const;

  /// Returns who sends a credential, and what he may do in a job. Fails also with
  /// permission_denied, in the same words whether there is such a job or not.
  Result<core::Caller> caller(std::string_view credential, const std::string& job,
                              const std::optional<tls::Certificate>& shown,
                              const std::string& refused = {}) const;

 private:
  void note(const Principal& found, tls::WallTime now) const;

  const std::function<tls::WallTime()> now_;
  mutable std::mutex mutex_;
  std::shared_ptr<const AccessRules> access_;
  tls::WallTime replaced_ = now_();
  mutable std::unordered_map<std::string, Principal> known_;  // by the text of the token
  mutable std::size_t known_bytes_ = 0;
  mutable std::map<std::string, tls::WallTime> with_former_;  // by the principal's name
};

}  // namespace c10dd::daemon
