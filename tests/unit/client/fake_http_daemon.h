// SPDX-License-Identifier: Apache-2.0
// A daemon that replies over HTTP as a test says, and with status 404 to all else.
#pragma once

#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "client/internal/url.h"
#include "tests/unit/fake_server.h"

namespace c10dd::test {

/// Takes a request. Its name is the method with the path, its argument all of it.
inline std::optional<FakeRequest> take_http(std::string& in) {
  const std::size_t head = in.find("\r\n\r\n");
  if (head == std::string::npos) return std::nullopt;
  const std::size_t body = std::stoul(in.substr(in.find("Content-Length: ") + 16));
  if (in.size() < head + 4 + body) return std::nullopt;
  const FakeRequest asked{in.substr(0, in.find(' ', in.find(' ') + 1)),
                          in.substr(0, head + 4 + body)};
  in.erase(0, head + 4 + body);
  return asked;
}

inline FakeReply http_reply(const std::string& body, const std::string& status = "200 OK") {
  return {"HTTP/1.1 " + status + "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" +
              body,
          FakeReply::Then::close};
}

class FakeHttpDaemon {
 public:
  client::HostPort at() const {
    const std::string& address = server_.address();
    return {"127.0.0.1", static_cast<std::uint16_t>(std::stoul(address.substr(10)))};
  }
  std::string text() const { return server_.address(); }
  void say(const std::string& name, std::deque<FakeReply> replies) { server_.say(name, replies); }
  int asked(const std::string& name) const { return server_.asked(name); }
  /// The last request, whole.
  std::string last() const {
    const std::lock_guard lock(mutex_);
    return last_;
  }
  test::FakeServer& server() { return server_; }

 private:
  std::optional<FakeRequest> take(std::string& in) {
    auto asked = take_http(in);
    const std::lock_guard lock(mutex_);
    if (asked) last_ = asked->argument;
    return asked;
  }

  mutable std::mutex mutex_;
  std::string last_;
  test::FakeServer server_{[this](std::string& in) { return take(in); },
                           [](const FakeRequest&) { return http_reply("no", "404 Not Found"); }};
};

}  // namespace c10dd::test
