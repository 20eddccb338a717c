// SPDX-License-Identifier: Apache-2.0
// What the servers and connections of a scenario with --tls need: a CA, a certificate of the
// servers, and what the clients show. The files are in a temporary directory.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "client/internal/tls.h"
#include "tests/integration/cluster_files.h"
#include "tests/unit/temporary_directory.h"

namespace c10dd::bench {

/// By what a client of the daemon shows who it is.
enum class Shown : std::uint8_t { token, certificate };

class Security {
 public:
  /// Throws std::runtime_error if a program that makes the files fails; Skipped (network.h) if the
  /// one for certificates of clients is not installed.
  explicit Security(Shown shown = Shown::token);

  /// What the daemon's command line needs besides.
  std::vector<std::string> daemon_options() const;
  /// Options of a redis-server that speaks only TLS, on this port.
  std::vector<std::string> redis_options(std::uint16_t port) const;

  std::shared_ptr<client::Tls> to_daemon() const { return to_daemon_; }
  std::shared_ptr<client::Tls> to_redis() const { return to_redis_; }

 private:
  void make_client_certificate();

  TemporaryDirectory directory_;
  test::ClusterFiles files_;
  std::string grants_;  // the file; empty: there is none
  std::shared_ptr<client::Tls> to_daemon_;
  std::shared_ptr<client::Tls> to_redis_;
};

}  // namespace c10dd::bench
