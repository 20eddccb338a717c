// SPDX-License-Identifier: Apache-2.0
// The CA in a folder (ca.crt, ca.key), and what it issues. Reads files; writes none.
//
// While the CA is being renewed, ca.crt has the new CA first, then the former one, and the former
// one again as signed by the new one. cross.crt has the new one as signed by the former one. So
// daemons and clients that know one of the two accept the other. retired.crt has former CAs whose
// time is over. next.key is the new key until it has become ca.key.
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
  std::vector<tls::Certificate> others = {};   ///< of ca.crt, after `certificate`
  std::vector<tls::Certificate> crosses = {};  ///< of this CA, signed by a former one in `others`
  std::vector<tls::Certificate> retired = {};  ///< former CAs that nobody shall trust any more
  bool has_next_key = false;                   ///< `key` was read from next.key

  /// Returns whether a certificate is of a CA that is being replaced.
  bool is_former(const tls::Certificate& one) const;
  bool is_renewed() const { return !crosses.empty(); }
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

/// Returns certificates in PEM, one after the other.
std::string pem_of(const std::vector<tls::Certificate>& all);

/// Issues the files of a daemon, which go to `folder`: first ca.crt, then tls.key, then tls.crt.
/// `known`: what ca.crt in the folder has already; it keeps those of other CAs. Fails with
/// invalid_argument if a host is wrong, or there is none or too many.
Result<std::vector<SecretFile>> daemon_files(const std::string& folder, const CaFolder& ca,
                                             const std::vector<std::string>& hosts,
                                             tls::WallTime now, tls::WallTime ends,
                                             const std::vector<tls::Certificate>& known = {});

/// Returns the hash of the key of a CA as people read it: "sha256:" and hexadecimal digits.
std::string hash_text(const std::string& hash);

}  // namespace c10dd::ctl
