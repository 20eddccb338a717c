// SPDX-License-Identifier: Apache-2.0
// The credentials of a client: where they are, and what is in the files now.
#pragma once

#include <string>

#include "client/credentials.h"
#include "client/internal/launch_environment.h"
#include "protocol/error.h"

namespace c10dd::client {

/// The texts of credentials. An empty text is not given.
struct CredentialTexts {
  std::string token = {};
  std::string ca = {};    ///< PEM
  std::string cert = {};  ///< PEM
  std::string key = {};   ///< PEM
  bool operator==(const CredentialTexts&) const = default;
};

/// Returns the credentials that C10DD_TOKEN, C10DD_TOKEN_FILE, C10DD_CA_FILE, C10DD_CERT_FILE and
/// C10DD_KEY_FILE name.
Credentials credentials_in(const Environment& environment);

/// Returns whether any is given: then the client speaks TLS only.
bool is_given(const Credentials& credentials);

/// Reads the files. Fails with invalid_argument: the text names the variable or the field, the file
/// and what to do. Returns no part of a secret in a failure.
Result<CredentialTexts> read_credentials(const Credentials& credentials);

}  // namespace c10dd::client
