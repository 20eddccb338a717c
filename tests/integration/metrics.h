// SPDX-License-Identifier: Apache-2.0
// Reads the metrics of a daemon.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <sstream>
#include <string>

namespace c10dd::test {

/// Returns the page /metrics of the daemon at `address` (IPv4:port), with the header.
inline std::string metrics_of(const std::string& address) {
  const std::string request =
      "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
  const std::size_t colon = address.rfind(':');
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<std::uint16_t>(std::stoi(address.substr(colon + 1))));
  inet_pton(AF_INET, address.substr(0, colon).c_str(), &to.sin_addr);
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  std::string reply;
  if (connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof to) == 0 &&
      send(fd, request.data(), request.size(), MSG_NOSIGNAL) > 0) {
    char buffer[65536];
    for (ssize_t n = 0; (n = recv(fd, buffer, sizeof buffer, 0)) > 0;) {
      reply.append(buffer, static_cast<std::size_t>(n));
    }
  }
  close(fd);
  return reply;
}

/// Returns how many requests the daemon has answered, without those that a client sends by itself:
/// hello, goodbye, ping, report and activity.
inline std::uint64_t requests_of(const std::string& address) {
  std::istringstream page(metrics_of(address));
  std::uint64_t requests = 0;
  for (std::string line; std::getline(page, line);) {
    if (line.find("c10dd_store_requests_total{") != 0) continue;
    bool own = false;
    for (const char* op : {"hello", "goodbye", "ping", "report", "activity"}) {
      own = own || line.find("op=\"" + std::string(op) + "\"") != std::string::npos;
    }
    if (!own) requests += std::stoull(line.substr(line.rfind(' ') + 1));
  }
  return requests;
}

}  // namespace c10dd::test
