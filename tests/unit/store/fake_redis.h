// SPDX-License-Identifier: Apache-2.0
// A server that replies like Redis, except to commands for which a test has set other replies. It
// serves one connection on 127.0.0.1, and closes it after a reply that the test has set.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <thread>

namespace c10dd::store {

class FakeRedis {
 public:
  /// Raw answers by the name of the command.
  explicit FakeRedis(std::map<std::string, std::string> replies);
  ~FakeRedis();

  std::string url() const { return "redis://127.0.0.1:" + std::to_string(port_); }

 private:
  void serve();

  std::map<std::string, std::string> replies_;
  int listener_ = -1;
  std::uint16_t port_ = 0;
  std::thread thread_;
};

}  // namespace c10dd::store
