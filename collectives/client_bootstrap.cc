// SPDX-License-Identifier: Apache-2.0
// Process groups whose members exchange their addresses through the daemon. The members report
// the totals of their collectives to the daemon, and publish each collective that takes long.
#include <unistd.h>

#include <boost/describe/class.hpp>
#include <optional>
#include <random>
#include <utility>

#include "client/client.h"
#include "client/internal/local_address.h"
#include "client/internal/throw_failure.h"
#include "client/membership.h"
#include "collectives/abortable_group.h"
#include "collectives/call_watch.h"
#include "collectives/generation_end.h"
#include "collectives/measure.h"
#include "collectives/process_group.h"
#include "protocol/address.h"
#include "protocol/fields.h"
#include "protocol/format.h"

namespace c10dd {
namespace {

/// One message of the address exchange, and the process that sends the message.
struct Introduction {
  Bytes part;
  std::string host;
  std::uint64_t pid = 0;
  std::uint64_t number = 0;  ///< random; rank 0's number becomes the id of the process group
};
BOOST_DESCRIBE_STRUCT(Introduction, (), (part, host, pid, number))

/// Returns the local address from which this process reaches `daemon` (host:port). Throws Error
/// with code `unavailable` if there is no route.
std::string address_towards(const std::string& daemon) {
  const Result<AddressParts> parts = split_address(daemon);
  const std::string host(parts ? parts->host : daemon);
  const std::string port(parts ? parts->port.value_or("0") : "0");
  std::string own = client::local_address_towards(host, port);
  if (own.empty()) {
    throw Error(Code::unavailable,
                format("no local address has a route to the daemon at {}; set the option hostname "
                       "or interface",
                       daemon));
  }
  return own;
}

/// A Bootstrap in which each rank also sends its host and process id, so that error texts can name
/// the host and the process.
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
  /// Returns the random number that all ranks share after transpose(), or 0 before transpose().
  std::uint64_t process_group() const { return process_group_; }

 private:
  virtual std::vector<std::string> exchange(std::vector<std::string> parts, Duration timeout) = 0;

  std::vector<ProcessAddress> processes_;
  std::uint64_t process_group_ = 0;
};

/// Exchanges the addresses among the ranks of a World that the caller has given.
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

/// Exchanges the addresses among the members of a generation. The exchange fails as soon as a
/// member is lost.
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

/// Aborts a group when the group's generation has ended. Does not observe collectives. Derives from
/// Hook only because a group owns its hooks, and so keeps this object alive.
class AbortAtEnd final : public Hook {
 public:
  void watch(Membership& membership, std::uint64_t generation,
             const std::shared_ptr<collectives::AbortableGroup>& group) {
    subscription_ =
        membership.on_change([weak = std::weak_ptr(group), generation](const GroupState& state) {
          const auto watched = weak.lock();
          if (watched && state.ended(generation)) watched->abort(collectives::failure_of(state));
        });
  }

 private:
  std::shared_ptr<void> subscription_;
};

/// Called when a group could not be opened because a rank was unreachable. Waits up to
/// kReasonPatience for the daemon to say why the generation has ended. Returns a failure with code
/// `aborted` and the daemon's reason. If the daemon gives no reason, the failure has the text and
/// the ranks of the exception `lost`. If `lost` names no rank either, returns nullopt.
std::optional<Failure> reason_of(const Unavailable& lost, Membership& membership,
                                 std::uint64_t generation) {
  const std::string opening = "process group \"" + membership.group() + "\" was not opened: ";
  if (const auto end =
          collectives::await_end(membership, generation, collectives::kReasonPatience)) {
    Failure reason = collectives::failure_of(*end);
    reason.detail = opening + reason.detail;
    return reason;
  }
  if (lost.missing().empty()) return std::nullopt;
  Failure reason = failure(Code::aborted, opening + lost.what() + ", not confirmed yet");
  reason.missing = client::ranks_of(lost.missing());
  return reason;
}

class ClientRecorder final : public CollectiveRecorder {
 public:
  explicit ClientRecorder(std::shared_ptr<Client> client) : client_(std::move(client)) {}
  void record(const CollectiveSample& sample) noexcept override { client_->record(sample); }

 private:
  const std::shared_ptr<Client> client_;
};

/// Opens a group whose collectives the daemon counts in its metrics. Collectives that take long are
/// published to the daemon.
std::shared_ptr<collectives::AbortableGroup> open_watched(
    const std::shared_ptr<IntroducingBootstrap>& bootstrap, World world, GroupOptions options,
    Duration reason_patience = Duration{0}) {
  const std::shared_ptr<Client> client = bootstrap->client();
  options.hooks.push_back(measure_into(std::make_shared<ClientRecorder>(client), options.backend));
  const auto watch = std::make_shared<collectives::CallWatch>(client::connection_of(*client),
                                                              world.rank, world.size);
  options.hooks.push_back(watch);
  auto group =
      collectives::open_group(bootstrap, std::move(world), std::move(options),
                              {.reason_patience = reason_patience,
                               .explain = [watch](const CollectiveCall& call, Failure& failure) {
                                 watch->explain(call, failure);
                               }});
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
  // rank() and world_size() throw InvalidArgument if the client does not know them.
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
    auto group = open_watched(bootstrap, world, std::move(options), collectives::kReasonPatience);
    guard->watch(team, now.number, group);
    return group;
  } catch (const Unavailable& lost) {
    if (const auto reason = reason_of(lost, team, now.number)) client::throw_failure(*reason);
    throw;
  }
}

}  // namespace c10dd
