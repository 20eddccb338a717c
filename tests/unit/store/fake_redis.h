// SPDX-License-Identifier: Apache-2.0
// A server that answers like Redis, but for the commands that a test gives other answers for.
// It serves one connection on 127.0.0.1, and closes it after an answer of the test's.
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
