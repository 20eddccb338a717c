// SPDX-License-Identifier: Apache-2.0
// Reads the files of --tls and --grants, again and again: they are renewed while the daemon runs.
#pragma once

#include <string>
#include <vector>

#include "daemon/config/access_rules.h"
#include "protocol/error.h"

namespace c10dd::daemon {

class AccessFiles {
 public:
  /// `folder` has tls.crt, tls.key and ca.crt, as cert-manager names them. `grants`: the path of
  /// the grants file, or empty.
  AccessFiles(std::string folder, std::string grants)
      : folder_(std::move(folder)), grants_(std::move(grants)) {}

  /// Reads all files. Fails with invalid_argument: the text names the file, and what to do.
  Result<AccessTexts> read();

  /// Returns a text that changes when one of the files read last has changed, also if a link to it
  /// or to its folder has.
  std::string state() const;

 private:
  std::vector<std::string> paths() const;

  std::string folder_;
  std::string grants_;
  std::vector<std::string> jwks_;  // that the grants named when they were read last
};

}  // namespace c10dd::daemon
