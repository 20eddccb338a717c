// SPDX-License-Identifier: Apache-2.0
#include "tests/torture/books.h"

#include <chrono>
#include <map>
#include <sstream>
#include <thread>

#include "client/internal/stream.h"

namespace c10dd::torture {
namespace {

using namespace std::chrono_literals;

constexpr auto kPagePatience = 5s;

/// Returns the page /metrics of a daemon, with the header; empty if it does not come. Shows the
/// credentials of the environment.
std::string metrics_of(const std::string& address) {
  const auto end = client::Stream::Time::clock::now() + kPagePatience;
  std::string request = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n";
  client::Tls::Begun with;
  if (const auto tls = client::tls_of({})) {
    Result<client::Tls::Begun> begun = tls->begin(address);
    if (!begun) return "";
    with = std::move(*begun);
    request += "Authorization: Bearer " + with.token + "\r\n";
  }
  Result<client::Stream> stream = client::Stream::connect(address, end, std::move(with));
  if (!stream || !stream->send(request + "\r\n", end)) return "";
  std::string page;
  for (Result<bool> more = true; more && *more;) more = stream->receive(page, end);
  return page;
}

/// Adds up the values of each metric, except that connections are counted by protocol.
std::map<std::string, double> sums_of(const std::string& page) {
  std::map<std::string, double> sums;
  std::istringstream lines(page);
  for (std::string line; std::getline(lines, line);) {
    if (line.find("c10dd_") != 0) continue;
    const std::size_t value = line.rfind(' ');
    std::string name = line.substr(0, value);
    if (name.find("c10dd_connections{") != 0) name = name.substr(0, name.find('{'));
    sums[name] += std::stod(line.substr(value));
  }
  return sums;
}

std::string held_now(const std::string& addresses, unsigned killed) {
  double native = 0;
  std::istringstream list(addresses);
  for (std::string address; std::getline(list, address, ',');) {
    auto sums = sums_of(metrics_of(address));
    if (!sums.contains("c10dd_ready")) return "daemon " + address + " tells no metrics";
    native += sums["c10dd_connections{protocol=\"native\"}"];
    const auto more = [&](const char* name, double most) {
      return sums[name] <= most ? ""
                                : "daemon " + address + ": " + name + " is " +
                                      std::to_string(static_cast<std::uint64_t>(sums[name]));
    };
    for (const std::string& held :
         {more("c10dd_store_waiters", 0), more("c10dd_barriers_pending", killed),
          more("c10dd_connections{protocol=\"tcpstore\"}", 0),
          more("c10dd_connections{protocol=\"http\"}", 1),  // which asks
          more("c10dd_connections{protocol=\"unknown\"}", 0), more("c10dd_connection_bytes", 0)}) {
      if (!held.empty()) return held;
    }
  }
  return native > 1 ? std::to_string(static_cast<int>(native)) + " native connections" : "";
}

}  // namespace

std::string held_in_the_end(const std::string& addresses, unsigned killed) {
  const auto deadline = std::chrono::steady_clock::now() + 20s;
  std::string held = held_now(addresses, killed);
  while (!held.empty() && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(100ms);
    held = held_now(addresses, killed);
  }
  return held;
}

}  // namespace c10dd::torture
