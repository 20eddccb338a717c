// SPDX-License-Identifier: Apache-2.0
// A process group whose members meet through the daemon and whose collectives are reported to it.
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <utility>

#include "client/client.h"
#include "collectives/measure.h"
#include "collectives/process_group.h"

namespace c10dd {
namespace {

/// The own address on the way to `daemon` (host:port): loopback for a daemon on this machine, else
/// that of the interface which leads there. Sends nothing.
std::string address_towards(const std::string& daemon) {
  const std::size_t colon = daemon.rfind(':');
  std::string host = daemon.substr(0, colon);
  const std::string port = colon == std::string::npos ? "0" : daemon.substr(colon + 1);
  if (host.size() > 1 && host.front() == '[') host = host.substr(1, host.size() - 2);
  addrinfo hints = {};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  std::string own;
  if (getaddrinfo(host.c_str(), port.c_str(), &hints, &found) == 0) {
    for (const addrinfo* one = found; one != nullptr && own.empty(); one = one->ai_next) {
      const int fd = socket(one->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
      if (fd < 0) continue;
      sockaddr_storage address = {};
      socklen_t length = sizeof(address);
      char text[NI_MAXHOST] = "";
      if (connect(fd, one->ai_addr, one->ai_addrlen) == 0 &&
          getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) == 0 &&
          getnameinfo(reinterpret_cast<sockaddr*>(&address), length, text, sizeof(text), nullptr, 0,
                      NI_NUMERICHOST) == 0) {
        own = text;
      }
      close(fd);
    }
    freeaddrinfo(found);
  }
  if (own.empty()) {
    throw Error(Code::unavailable, "no own address leads to the daemon at " + daemon +
                                       "; set the option hostname or interface");
  }
  return own;
}

class ClientBootstrap final : public Bootstrap {
 public:
  ClientBootstrap(std::shared_ptr<Client> client, World world)
      : client_(std::move(client)), world_(std::move(world)) {}

  std::vector<std::string> transpose(std::vector<std::string> parts, Duration timeout) override {
    return client_->exchange("process_group/" + world_.name, std::move(parts),
                             {.rank = world_.rank,
                              .world_size = world_.size,
                              .generation = world_.generation,
                              .shape = ExchangeShape::transpose,
                              .timeout = timeout});
  }

  std::string local_address() const override { return address_towards(client_->address()); }

 private:
  const std::shared_ptr<Client> client_;
  const World world_;
};

class ClientRecorder final : public CollectiveRecorder {
 public:
  explicit ClientRecorder(std::shared_ptr<Client> client) : client_(std::move(client)) {}
  void record(const CollectiveSample& sample) noexcept override { client_->record(sample); }

 private:
  const std::shared_ptr<Client> client_;
};

}  // namespace

std::shared_ptr<ProcessGroup> ProcessGroup::open(std::shared_ptr<Client> client, World world,
                                                 GroupOptions options) {
  if (!client) throw InvalidArgument("process group \"" + world.name + "\": client is null");
  options.hooks.push_back(measure_into(std::make_shared<ClientRecorder>(client), world.kind,
                                       options.backend, world.size));
  return open(std::make_shared<ClientBootstrap>(std::move(client), world), world,
              std::move(options));
}

}  // namespace c10dd
