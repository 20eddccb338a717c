// SPDX-License-Identifier: Apache-2.0
// How a client shows who it is.
#pragma once

#include <string>

#include <c10dd/language.h>

namespace c10dd {

/// The credentials of a client. If any is given, the client speaks TLS with the daemon. The files
/// are read again at each connect and before a token expires, so that they can be renewed while the
/// client runs. An empty text is not given.
struct Credentials {
  std::string token = {};       ///< a JSON Web Token, as c10ddctl ca token prints it
  std::string token_file = {};  ///< path of a file with the token; not with `token`
  /// Path of the CA certificates (PEM) of the daemon, whose certificate must name the host of the
  /// URL. Without it the client knows the daemon by the hash in the token; if the token has none,
  /// the system's CAs must know it.
  std::string ca_file = {};
  std::string cert_file = {};  ///< path of the client's certificate (PEM); needs `key_file`
  std::string key_file = {};   ///< path of its private key (PEM)
};

}  // namespace c10dd
