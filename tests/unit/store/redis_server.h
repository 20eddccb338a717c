// SPDX-License-Identifier: Apache-2.0
// A real redis-server of a test's own: on 127.0.0.1 and a free port, in a temporary directory,
// with every write synced. It is ended by its pid, and by the kernel if the test dies.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "store/redis/link.h"
#include "tests/integration/reserved_port.h"
#include "tests/unit/temporary_directory.h"

namespace c10dd::store {

class RedisServer {
 public:
  /// Whether there is a redis-server to start; without one its tests are skipped.
  static bool installed();

  /// Throws when the server does not come up. With `tls` it speaks only TLS.
  explicit RedisServer(bool tls = false);
  ~RedisServer();

  /// redis://127.0.0.1:port/prefix, or rediss:
  std::string url(const std::string& prefix = "c10dd") const;
  std::uint16_t port() const { return port_.number(); }
  /// The file of its CA; empty without TLS.
  std::string ca_file() const { return tls_ ? directory_.path() + "/ca.crt" : ""; }

  /// One command on a connection of its own; throws on an error.
  RedisReply command(const std::vector<std::string>& arguments) const;

  /// Ends the server without warning and starts it again on its files.
  void kill_and_restart();

 private:
  bool start();
  void stop(int signal);

  const bool tls_;
  TemporaryDirectory directory_;
  test::ReservedPort port_;
  pid_t pid_ = -1;
  int output_ = -1;
};

}  // namespace c10dd::store
