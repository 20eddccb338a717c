// SPDX-License-Identifier: Apache-2.0
#include "client/internal/resolver.h"

#include <netdb.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>

#include "client/internal/per_process.h"
#include "client/internal/socket.h"
#include "protocol/format.h"
#include "protocol/wording.h"

namespace c10dd::client {
namespace {

using Found = Result<std::vector<SocketAddress>>;
constexpr std::size_t kServersKept = 1'024;
constexpr std::chrono::milliseconds kPollMax = std::chrono::hours(1);  // poll() takes an int

/// Calls getaddrinfo() with these flags. Stores its result in `error`.
std::vector<SocketAddress> look_up(const NamedServer& server, int flags, int& error) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  error = getaddrinfo(server.host.c_str(), server.port.c_str(), &hints, &found);
  std::vector<SocketAddress> addresses;
  if (error != 0) return addresses;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    addresses.emplace_back(one->ai_addr, one->ai_addrlen);
  }
  freeaddrinfo(found);
  return addresses;
}

Found look_up_name(const NamedServer& server) {
  int error = 0;
  std::vector<SocketAddress> addresses = look_up(server, AI_ADDRCONFIG, error);
  // AI_ADDRCONFIG ignores loopback addresses. Without it, a machine without a network finds names
  // of /etc/hosts, too.
  if (error != 0 && error != EAI_AGAIN) addresses = look_up(server, 0, error);
  if (error == 0) return addresses;
  const std::string text = error == EAI_SYSTEM ? error_text(errno) : gai_strerror(error);
  return failure(Code::unavailable, "host name {} cannot be resolved: {}", server.host, text);
}

/// One look-up, which any number of callers wait for.
struct LookUp {
  Descriptor done{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};  ///< readable once `found` is set
  std::optional<Found> found;
};

/// The look-ups of this process. They may outlive main().
struct Names {
  void keep(const NamedServer& server, const std::vector<SocketAddress>& addresses) {
    if (kept.size() >= kServersKept && !kept.contains(server)) kept.clear();
    kept[server] = addresses;
  }

  std::mutex mutex;
  std::map<NamedServer, std::shared_ptr<LookUp>> running;
  std::map<NamedServer, std::vector<SocketAddress>> kept;  // of the newest that found some
};

/// Returns the running look-up of this server. Begins one if there is none. Fails if the system has
/// no thread or no descriptor for it. The caller holds the mutex.
Result<std::shared_ptr<LookUp>> begin(Names& all, const NamedServer& server) {
  if (const auto it = all.running.find(server); it != all.running.end()) return it->second;
  auto started = std::make_shared<LookUp>();
  if (!started->done) {
    return failure(Code::unavailable, "cannot look up host name {}: {}", server.host,
                   error_text(errno));
  }
  try {
    std::thread([&all, server, started] {
      Found found = look_up_name(server);
      const std::lock_guard lock(all.mutex);
      if (found) all.keep(server, *found);
      started->found = std::move(found);
      all.running.erase(server);
      const std::uint64_t one = 1;
      static_cast<void>(!write(started->done.get(), &one, sizeof one));
    }).detach();
  } catch (const std::system_error& error) {
    return failure(Code::unavailable, "cannot start a thread to look up host name {}: {}",
                   server.host, error.what());
  }
  all.running.emplace(server, started);
  return started;
}

/// Blocks until one of both descriptors is readable, at most for this time. Returns whether
/// `interrupt` is readable.
bool await(const LookUp& look_up, int interrupt, Duration patience) {
  pollfd polled[] = {{look_up.done.get(), POLLIN, 0}, {interrupt, POLLIN, 0}};
  const auto end = std::chrono::steady_clock::now() + patience;
  while (true) {
    const auto left = std::max(end - std::chrono::steady_clock::now(), {});
    const auto part = std::min(std::chrono::ceil<std::chrono::milliseconds>(left), kPollMax);
    const int ready = poll(polled, 2, static_cast<int>(part.count()));
    if (ready > 0) return polled[1].revents != 0;
    if (ready == 0 && part == std::chrono::ceil<std::chrono::milliseconds>(left)) return false;
  }
}

}  // namespace

SocketAddress::SocketAddress(const sockaddr* address, socklen_t size) : size_(size) {
  std::memcpy(&storage_, address, std::min<std::size_t>(size, sizeof storage_));
}

std::string SocketAddress::host() const {
  char text[NI_MAXHOST] = {};
  getnameinfo(get(), size_, text, sizeof text, nullptr, 0, NI_NUMERICHOST);
  return text;
}

Result<std::vector<SocketAddress>> resolve(const NamedServer& server, int interrupt,
                                           Duration patience) {
  int error = 0;
  std::vector<SocketAddress> numeric = look_up(server, AI_NUMERICHOST, error);
  if (error == 0) return numeric;
  Names& all = of_this_process<Names>();
  std::unique_lock lock(all.mutex);
  const auto known = all.kept.find(server);
  const std::vector<SocketAddress> kept =
      known == all.kept.end() ? std::vector<SocketAddress>() : known->second;
  const Result<std::shared_ptr<LookUp>> started = begin(all, server);
  if (!started) return kept.empty() ? Found(started.error()) : Found(kept);
  lock.unlock();
  const Duration limit = kept.empty() ? patience : std::min(patience, kLookUpPatience);
  const bool interrupted = await(**started, interrupt, limit);
  lock.lock();
  const std::optional<Found>& found = (*started)->found;
  if (found && (*found || kept.empty())) return *found;
  if (!kept.empty()) return kept;
  if (interrupted) {
    return failure(Code::unavailable, "the look-up of host name {} was interrupted", server.host);
  }
  return failure(Code::unavailable,
                 "host name {} was not resolved within {}; check the name servers", server.host,
                 human(limit));
}

}  // namespace c10dd::client
