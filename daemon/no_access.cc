// SPDX-License-Identifier: Apache-2.0
// The functions of access.h in a daemon that is built without OpenSSL.
#include "daemon/access.h"

namespace c10dd::daemon {

namespace {

Failure without_tls() {
  return failure(Code::unsupported,
                 "--tls: this daemon was built without TLS; install libssl-dev and build it with "
                 "-DC10DD_WITH_TLS=ON");
}

}  // namespace

Result<std::unique_ptr<Access>> open_access(Loop&, const Options& options) {
  if (options.tls.empty()) return std::unique_ptr<Access>();
  return without_tls();
}

Result<Bytes> ask_over_tls(const Options&, asio::ip::tcp::socket&, std::string_view) {
  return without_tls();
}

}  // namespace c10dd::daemon
