// SPDX-License-Identifier: Apache-2.0
// Any bytes as all that a Redis server ever says, through a real connection: every call comes back
// with an answer or a failure, and nothing is called durable by bytes that do not say so.
#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <mutex>
#include <thread>

#include "store/engine.h"
#include "store/job_head.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/target.h"

namespace {

namespace store = c10dd::store;

/// Says the same to each connection in turn, whatever it is asked.
class Server {
 public:
  Server() : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    C10DD_ASSERT(::bind(listener_, any, size) == 0 && ::listen(listener_, 16) == 0);
    C10DD_ASSERT(::getsockname(listener_, any, &size) == 0);
    url = "redis://127.0.0.1:" + std::to_string(ntohs(address.sin_port)) + "/x";
    std::thread([this] {
      while (true) {
        const int connection = ::accept(listener_, nullptr, nullptr);
        if (connection >= 0 || errno != EINTR) serve(connection);  // libFuzzer's alarm interrupts
      }
    }).detach();
  }

  std::string url;

  /// What the next connections are told.
  void say(c10dd::Bytes words) {
    const std::lock_guard lock(mutex_);
    words_ = std::move(words);
  }

 private:
  void serve(int connection) {
    C10DD_ASSERT(connection >= 0);
    c10dd::Bytes words;
    {
      const std::lock_guard lock(mutex_);
      words = words_;
    }
    ::send(connection, words.data(), words.size(), MSG_NOSIGNAL);
    ::shutdown(connection, SHUT_WR);
    std::array<char, 4096> heard;
    while (::recv(connection, heard.data(), heard.size(), 0) > 0) {
    }
    ::close(connection);
  }

  int listener_;
  std::mutex mutex_;
  c10dd::Bytes words_;
};

void use(store::Engine& engine) {
  if (const auto claim = engine.claim(7)) {
    std::size_t rows = 0;
    c10dd::Bytes last;
    (void)engine.load(7, [&](const c10dd::Row& row) {
      C10DD_ASSERT(rows++ == 0 || last < row.key);
      last = row.key;
    });
    const std::array<store::JobBatch, 2> batches = {
        store::JobBatch{7, claim->epoch, 0, 1, {{c10dd::Row::Kind::put, "k", "v"}}},
        store::JobBatch{8, claim->epoch, 0, 1, {{c10dd::Row::Kind::erase, "k", ""}}}};
    C10DD_ASSERT(engine.commit(batches).size() == batches.size());
    const store::Ownership owner{7, claim->epoch};
    C10DD_ASSERT(engine.confirm({&owner, 1}).size() == 1);
    (void)engine.release(owner);
  }
  (void)engine.jobs();
}

}  // namespace

C10DD_FUZZ(redis_replies) {
  static Server& server = *new Server;  // its thread never ends
  c10dd::Bytes words(c10dd::fuzz::Input(data, size).rest());
  // The corpus outlives the format: without the present one, nothing behind the greeting is read.
  static_assert(store::kStoredFormat < 10);
  std::ranges::replace(words, '@', char('0' + store::kStoredFormat));
  server.say(std::move(words));
  if (const auto engine = store::open_engine(server.url)) {
    use(**engine);
  } else {
    C10DD_ASSERT(!engine.error().detail.empty());
  }
  return 0;
}
