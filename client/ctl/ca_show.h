// SPDX-License-Identifier: Apache-2.0
// What certificates and tokens say, for people and as JSON. Shows no key and no token.
#pragma once

#include <string>
#include <vector>

#include "client/ctl/outcome.h"
#include "protocol/tls/certificates.h"

namespace c10dd::ctl {

/// Shows folders, certificates and tokens, as lines or as a page in JSON. Checks no signature but
/// those between the files of one folder. exit_code::kUsage if a path has nothing of that.
Outcome show_paths(const std::vector<std::string>& paths, bool json, tls::WallTime now);

}  // namespace c10dd::ctl
