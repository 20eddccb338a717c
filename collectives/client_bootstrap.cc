// SPDX-License-Identifier: Apache-2.0
// A process group whose members meet through the daemon and whose collectives are reported to it.
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/describe/class.hpp>
#include <optional>
#include <random>
#include <utility>

#include "client/client.h"
#include "client/internal/throw_failure.h"
#include "client/membership.h"
#include "collectives/abortable_group.h"
#include "collectives/call_watch.h"
#include "collectives/measure.h"
#include "collectives/process_group.h"
#include "collectives/verdict.h"
#include "protocol/fields.h"

namespace c10dd {
namespace {

/// A part with where it comes from.
struct Introduction {
  Bytes part;
  std::string host;
  std::uint64_t pid = 0;
  std::uint64_t number = 0;  ///< drawn by its rank; that of rank 0 names the process group
};
BOOST_DESCRIBE_STRUCT(Introduction, (), (part, host, pid, number))

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

/// Each rank adds to its parts where it runs, so that a lost one can be named.
class IntroducingBootstrap : public Bootstrap {
 public:
  std::vector<std::string> transpose(std::vector<std::string> parts, Duration timeout) final {
    const std::uint64_t pid = static_cast<std::uint64_t>(getpid());
    std::random_device device;
    const std::uint64_t number = (std::uint64_t{device()} << 32) | device();
    for (std::string& part : parts) {
      part = wire::encode(Introduction{std::move(part), client()->host(), pid, number});
    }
    std::vector<std::string> reply = exchange(std::move(parts), timeout);
    processes_.clear();
    for (std::string& part : reply) {
      Result<Introduction> one = wire::decode<Introduction>(part);
      if (!one) client::throw_failure(one.error());
      part = std::move(one->part);
      if (processes_.empty()) process_group_ = one->number;
      processes_.push_back({std::move(one->host), one->pid});
    }
    return reply;
  }

  std::vector<ProcessAddress> processes() const final { return processes_; }
  std::string local_address() const final { return address_towards(client()->address()); }

  virtual std::shared_ptr<Client> client() const = 0;
  /// A random number that the ranks share, once they have met.
  std::uint64_t process_group() const { return process_group_; }

 private:
  virtual std::vector<std::string> exchange(std::vector<std::string> parts, Duration timeout) = 0;

  std::vector<ProcessAddress> processes_;
  std::uint64_t process_group_ = 0;
};

class ClientBootstrap final : public IntroducingBootstrap {
 public:
  ClientBootstrap(std::shared_ptr<Client> client, World world)
      : client_(std::move(client)), world_(std::move(world)) {}

  std::shared_ptr<Client> client() const override { return client_; }

 private:
  std::vector<std::string> exchange(std::vector<std::string> parts, Duration timeout) override {
    return client_->exchange("process_group/" + world_.name, std::move(parts),
                             {.rank = world_.rank,
                              .world_size = world_.size,
                              .generation = world_.generation,
                              .shape = ExchangeShape::transpose,
                              .timeout = timeout});
  }

  const std::shared_ptr<Client> client_;
  const World world_;
};

/// The exchange is bound to the generation: it fails at once when a member is lost.
class MemberBootstrap final : public IntroducingBootstrap {
 public:
  explicit MemberBootstrap(std::shared_ptr<Membership> membership)
      : membership_(std::move(membership)) {}

  std::shared_ptr<Client> client() const override { return membership_->client(); }
  Membership& membership() const { return *membership_; }

 private:
  std::vector<std::string> exchange(std::vector<std::string> parts, Duration timeout) override {
    return membership_->exchange("process_group/" + membership_->group(), std::move(parts),
                                 {.shape = ExchangeShape::transpose, .timeout = timeout});
  }

  const std::shared_ptr<Membership> membership_;
};

/// Aborts a group when its generation has ended; lives as long as the group.
class AbortAtEnd final : public Hook {
 public:
  void before(const CollectiveCall&) noexcept override {}
  void after(const CollectiveCall&) noexcept override {}

  void watch(Membership& membership, std::uint64_t generation,
             const std::shared_ptr<collectives::AbortableGroup>& group) {
    subscription_ =
        membership.on_change([weak = std::weak_ptr(group), generation](const GroupState& state) {
          const auto watched = weak.lock();
          if (watched && state.ended(generation)) watched->abort(collectives::verdict_of(state));
        });
  }

 private:
  std::shared_ptr<void> subscription_;
};

/// A member that dies while the group is opened is `aborted`, too, with the daemon's reason if that
/// comes soon. Nothing: nobody was lost.
std::optional<Failure> verdict_on(const Unavailable& lost, Membership& membership,
                                  std::uint64_t generation) {
  const std::string opening = "process group \"" + membership.group() + "\" was not opened: ";
  if (const auto end =
          collectives::await_end(membership, generation, collectives::kVerdictPatience)) {
    Failure verdict = collectives::verdict_of(*end);
    verdict.detail = opening + verdict.detail;
    return verdict;
  }
  if (lost.missing().empty()) return std::nullopt;
  Failure verdict = failure(Code::aborted, opening + lost.what() + ", not confirmed yet");
  verdict.missing = client::ranks_of(lost.missing());
  return verdict;
}

class ClientRecorder final : public CollectiveRecorder {
 public:
  explicit ClientRecorder(std::shared_ptr<Client> client) : client_(std::move(client)) {}
  void record(const CollectiveSample& sample) noexcept override { client_->record(sample); }

 private:
  const std::shared_ptr<Client> client_;
};

/// The group, with what all groups of a client have: its collectives are counted, and those that
/// wait long are published.
std::shared_ptr<collectives::AbortableGroup> open_watched(
    const std::shared_ptr<IntroducingBootstrap>& bootstrap, World world, GroupOptions options,
    Duration verdict_patience = Duration{0}) {
  const std::shared_ptr<Client> client = bootstrap->client();
  options.hooks.push_back(measure_into(std::make_shared<ClientRecorder>(client), world.kind,
                                       options.backend, world.size));
  const auto watch = std::make_shared<collectives::CallWatch>(client::connection_of(*client),
                                                              world.rank, world.size);
  options.hooks.push_back(watch);
  auto group = collectives::open_group(
      bootstrap, std::move(world), std::move(options),
      {verdict_patience,
       [watch](const CollectiveCall& call, Failure& failure) { watch->explain(call, failure); }});
  watch->identify(bootstrap->process_group(), bootstrap->processes());
  return group;
}

}  // namespace

std::shared_ptr<ProcessGroup> ProcessGroup::open(std::shared_ptr<Client> client, World world,
                                                 GroupOptions options) {
  if (!client) throw InvalidArgument("process group \"" + world.name + "\": client is null");
  const auto bootstrap = std::make_shared<ClientBootstrap>(std::move(client), world);
  return open_watched(bootstrap, std::move(world), std::move(options));
}

std::shared_ptr<ProcessGroup> ProcessGroup::open(std::shared_ptr<Client> client,
                                                 GroupOptions options, std::string kind) {
  if (!client) throw InvalidArgument("process group: client is null");
  const World world = {
      .rank = client->rank(), .size = client->world_size(), .kind = std::move(kind)};
  return open(std::move(client), world, std::move(options));
}

std::shared_ptr<ProcessGroup> ProcessGroup::open(std::shared_ptr<Membership> membership,
                                                 GroupOptions options, std::string kind) {
  if (!membership) throw InvalidArgument("process group: membership is null");
  const auto bootstrap = std::make_shared<MemberBootstrap>(std::move(membership));
  Membership& team = bootstrap->membership();
  const Generation now = team.generation();
  const World world = {.rank = now.rank,
                       .size = now.size,
                       .generation = now.number,
                       .name = team.group(),
                       .kind = std::move(kind)};
  const auto guard = std::make_shared<AbortAtEnd>();
  options.hooks.push_back(guard);
  try {
    auto group = open_watched(bootstrap, world, std::move(options), collectives::kVerdictPatience);
    guard->watch(team, now.number, group);
    return group;
  } catch (const Unavailable& lost) {
    if (const auto verdict = verdict_on(lost, team, now.number)) {
      client::throw_failure(*verdict);
    }
    throw;
  }
}

}  // namespace c10dd
