// SPDX-License-Identifier: Apache-2.0
// The CA in a folder (ca.crt, ca.key), and what it issues. Reads files; writes none.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "client/ctl/secret_files.h"
#include "protocol/tls/certificates.h"

namespace c10dd::ctl {

inline constexpr std::chrono::hours kDay{24};
inline constexpr std::chrono::hours kCaLife = 3650 * kDay;

struct CaFolder {
  std::string path;
  tls::Certificate certificate;
  tls::Key key;
};

/// Makes a CA that begins now, which is in no folder yet.
CaFolder new_ca(const std::string& path, tls::WallTime now);

/// Reads a CA. Fails with invalid_argument if a file is missing or damaged, if they do not fit, if
/// every user of the machine may read the key, or if `now` is not in the time of the certificate.
Result<CaFolder> read_ca(const std::string& path, tls::WallTime now);

/// How long something may be valid.
struct Lifetime {
  std::chrono::seconds usual;
  std::chrono::seconds most;
};

/// Returns when something ends that begins now: after `ttl`, a time such as 12h or 30d, or as usual
/// if `ttl` is empty, but not after the CA. Fails with invalid_argument if `ttl` is not a time, is
/// too long, or ends after the CA.
Result<tls::WallTime> end_of(const std::string& ttl, Lifetime limits, const CaFolder& ca,
                             tls::WallTime now);

/// Returns the hosts of options, each of which may be a list with commas; each host once.
std::vector<std::string> hosts_in(const std::vector<std::string>& options);

/// Issues the files of a daemon, which go to `folder`: first ca.crt, then tls.key, then tls.crt.
/// Fails with invalid_argument if a host is wrong, or there is none or too many.
Result<std::vector<SecretFile>> daemon_files(const std::string& folder, const CaFolder& ca,
                                             const std::vector<std::string>& hosts,
                                             tls::WallTime now, tls::WallTime ends);

/// Returns the hash of the key of a CA as people read it: "sha256:" and hexadecimal digits.
std::string hash_text(const std::string& hash);

}  // namespace c10dd::ctl
