// SPDX-License-Identifier: Apache-2.0
// One thread, one connection, a table of answers.
#include "tests/unit/store/fake_redis.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <optional>
#include <stdexcept>

#include "store/job_head.h"

namespace c10dd::store {
namespace {

/// Removes one complete command from the front of `input`. Returns the command's name.
std::optional<std::string> take_command(std::string& input) {
  std::size_t at = 0;
  const auto number = [&](char mark) -> std::optional<std::size_t> {
    const std::size_t end = input.find("\r\n", at);
    if (end == std::string::npos || input[at] != mark) return std::nullopt;
    const std::size_t value = std::stoul(input.substr(at + 1, end - at - 1));
    at = end + 2;
    return value;
  };
  const auto count = number('*');
  std::string name;
  for (std::size_t n = 0; count && n < *count; ++n) {
    const auto length = number('$');
    if (!length || input.size() < at + *length + 2) return std::nullopt;
    if (n == 0) name = input.substr(at, *length);
    at += *length + 2;
  }
  if (!count) return std::nullopt;
  input.erase(0, at);
  return name;
}

const std::map<std::string, std::string>& good_answers() {
  static const std::map<std::string, std::string> replies{
      {"AUTH", "+OK\r\n"},
      {"ROLE", "*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n"},
      {"INFO", "$48\r\n# Server\r\nrun_id:0123456789\r\ncluster_enabled:0\r\n\r\n"},
      {"CONFIG", "*2\r\n$1\r\na\r\n$3\r\nyes\r\n"},
      {"SCRIPT", "$40\r\n0123456789012345678901234567890123456789\r\n"},
      {"SET", "+OK\r\n"},
      {"GET", "$1\r\n" + std::to_string(kStoredFormat) + "\r\n"},
      {"SADD", ":1\r\n"},
      {"EVAL", "*3\r\n$1\r\n1\r\n$1\r\n0\r\n$3\r\n1 0\r\n"},
      {"HGET", "$18\r\n1:0000000000000001\r\n"},
      {"HMGET", "*1\r\n$-1\r\n"},
      {"SMEMBERS", "*1\r\n$1\r\n1\r\n"},
      {"HSCAN", "*2\r\n$1\r\n0\r\n*0\r\n"},
      {"HLEN", ":0\r\n"}};
  return replies;
}

}  // namespace

FakeRedis::FakeRedis(std::map<std::string, std::string> replies) : replies_(std::move(replies)) {
  listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  if (::bind(listener_, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      ::listen(listener_, 1) != 0 ||
      ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    throw std::runtime_error("the fake server does not listen");
  }
  port_ = ntohs(address.sin_port);
  thread_ = std::thread([this] { serve(); });
}

FakeRedis::~FakeRedis() {
  ::shutdown(listener_, SHUT_RDWR);
  thread_.join();
  ::close(listener_);
}

void FakeRedis::serve() {
  const int connection = ::accept(listener_, nullptr, nullptr);
  if (connection < 0) return;
  std::string input;
  std::array<char, 65536> buffer;
  bool serving = true;
  while (serving) {
    const auto name = take_command(input);
    if (!name) {
      const ssize_t length = ::recv(connection, buffer.data(), buffer.size(), 0);
      if (length <= 0) break;
      input.append(buffer.data(), static_cast<std::size_t>(length));
      continue;
    }
    const auto given = replies_.find(*name);
    // NOSCRIPT is followed by another try on the same connection.
    serving = given == replies_.end() || given->second.starts_with("-NOSCRIPT");
    const std::string& reply = given != replies_.end() ? given->second : good_answers().at(*name);
    ::send(connection, reply.data(), reply.size(), MSG_NOSIGNAL);
  }
  ::close(connection);
}

}  // namespace c10dd::store
