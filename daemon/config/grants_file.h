// SPDX-License-Identifier: Apache-2.0
// Reads the file of --grants: who from elsewhere may do what, and which tokens are revoked.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/core/sessions/grants.h"
#include "protocol/error.h"

namespace c10dd::daemon {

/// A party that signs tokens, such as a Kubernetes cluster, and an audience of them. Several
/// entries may have the same issuer. The principal of a token is NAME:SUBJECT.
struct IssuerEntry {
  std::string name;
  std::string issuer;    ///< the token's "iss"
  std::string audience;  ///< must be in the token's "aud"
  std::string jwks;      ///< path of the file with its keys
};

struct GrantsFile {
  core::Grants grants;
  std::vector<IssuerEntry> issuers;
  std::set<std::string> revoked;       ///< names of tokens of c10ddctl
  bool asks_for_certificates = false;  ///< a grant names "cert:"
};

/// Reads the text of the file `path`. Fails with invalid_argument: the text names the line, what is
/// wrong, and what to write.
Result<GrantsFile> grants_in(std::string_view text, const std::string& path);

}  // namespace c10dd::daemon
