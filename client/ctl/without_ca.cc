// SPDX-License-Identifier: Apache-2.0
// The group `ca` of a c10ddctl that was built without OpenSSL: it refuses everything.
#include "client/ctl/ca.h"
#include "protocol/exit_codes.h"

namespace c10dd::ctl {
namespace {

Outcome without_openssl() {
  return {exit_code::kUsage, "",
          "this c10ddctl was built without OpenSSL, which the commands of ca need; use one that "
          "was built with it"};
}

}  // namespace

Outcome ca_init(const Arguments&, tls::WallTime) { return without_openssl(); }
Outcome ca_daemon(const Arguments&, tls::WallTime) { return without_openssl(); }
Outcome ca_renew(const Arguments&, tls::WallTime) { return without_openssl(); }
Outcome ca_token(const Arguments&, tls::WallTime) { return without_openssl(); }
Outcome ca_show(const Arguments&, tls::WallTime) { return without_openssl(); }

}  // namespace c10dd::ctl
