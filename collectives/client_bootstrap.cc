// SPDX-License-Identifier: Apache-2.0
// Process groups whose members exchange their addresses through the daemon. The members report
// the totals of their collectives to the daemon, and how far they have come.
#include <unistd.h>

#include <algorithm>
#include <boost/describe/class.hpp>
#include <numeric>
#include <optional>
#include <utility>

#include "client/client.h"
#include "client/internal/activity_reporter.h"
#include "client/internal/connection.h"
#include "client/internal/local_address.h"
#include "client/internal/throw_failure.h"
#include "client/membership.h"
#include "collectives/abortable_group.h"
#include "collectives/backend.h"
#include "collectives/generation_end.h"
#include "collectives/group_registry.h"
#include "collectives/issuing_threads.h"
#include "collectives/measure.h"
#include "collectives/process_group.h"
#include "collectives/reported_group.h"
#include "protocol/address.h"
#include "protocol/fields.h"
#include "protocol/format.h"
#include "protocol/random.h"

namespace c10dd {
namespace {

// A failure waits so long for the daemon's diagnosis. It does not ask if the daemon has not replied
// for longer than kSilenceMax (3 heartbeats).
constexpr Duration kReplyPatience = std::chrono::milliseconds(500);
constexpr Duration kSilenceMax = std::chrono::milliseconds(1500);

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
class IntroducingBootstrap final : public Bootstrap {
 public:
  IntroducingBootstrap(std::shared_ptr<Client> client, collectives::Exchange exchange)
      : client_(std::move(client)), exchange_(std::move(exchange)) {}

  std::vector<std::string> transpose(std::vector<std::string> parts, Duration timeout) override {
    return exchange(ExchangeShape::transpose, std::move(parts), timeout);
  }

  std::vector<std::string> all(const World&, std::string part, Duration timeout) override {
    return exchange(ExchangeShape::all, {std::move(part)}, timeout);
  }

  std::string from_root(const World& world, std::string part, Duration timeout) override {
    std::vector<std::string> parts;
    if (world.rank == 0) parts.push_back(std::move(part));
    return exchange(ExchangeShape::from_root, std::move(parts), timeout).front();
  }

  std::vector<ProcessAddress> processes() const override { return processes_; }
  std::string local_address() const override { return address_towards(client_->address()); }

  const std::shared_ptr<Client>& client() const { return client_; }
  /// Returns the random number that all ranks share after an exchange, or 0 before.
  std::uint64_t process_group() const { return process_group_; }

 private:
  std::vector<std::string> exchange(ExchangeShape shape, std::vector<std::string> parts,
                                    Duration timeout) {
    for (std::string& part : parts) {
      part = wire::encode(Introduction{std::move(part), client_->host(), pid_, number_});
    }
    std::vector<std::string> reply = exchange_(shape, std::move(parts), timeout);
    std::vector<ProcessAddress> processes;
    for (std::string& part : reply) {
      Result<Introduction> one = wire::decode<Introduction>(part);
      if (!one) client::throw_failure(one.error());
      part = std::move(one->part);
      if (processes.empty()) process_group_ = one->number;  // of rank 0
      processes.push_back({std::move(one->host), one->pid});
    }
    if (shape != ExchangeShape::from_root) processes_ = std::move(processes);
    return reply;
  }

  const std::shared_ptr<Client> client_;
  const collectives::Exchange exchange_;
  const std::uint64_t pid_ = static_cast<std::uint64_t>(getpid());
  const std::uint64_t number_ = random_number();
  std::vector<ProcessAddress> processes_;
  std::uint64_t process_group_ = 0;
};

/// Exchanges among the ranks of a World that the caller has given, or among some of them.
collectives::Exchange exchange_by(std::shared_ptr<Client> client, const World& world) {
  return [client = std::move(client), name = "process_group/" + world.name, rank = world.rank,
          size = world.size, generation = world.generation](
             ExchangeShape shape, std::vector<std::string> parts, Duration timeout) {
    return client->exchange(name, std::move(parts),
                            {.rank = rank,
                             .world_size = size,
                             .generation = generation,
                             .shape = shape,
                             .timeout = timeout});
  };
}

/// Exchanges among the members of a generation that have these ranks, in the order of the list, or
/// among all if the list is empty. The exchange fails as soon as one of them is lost.
collectives::Exchange exchange_by(std::shared_ptr<Membership> membership, const std::string& name,
                                  const std::vector<Rank>& ranks = {}) {
  return [membership = std::move(membership), name = "process_group/" + name, ranks](
             ExchangeShape shape, std::vector<std::string> parts, Duration timeout) {
    if (ranks.empty()) {
      return membership->exchange(name, std::move(parts), {.shape = shape, .timeout = timeout});
    }
    // The daemon wants the ranks in ascending order: order[i] is the index in `ranks` of the i-th.
    std::vector<std::size_t> order(ranks.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::sort(order, {}, [&](std::size_t i) { return ranks[i]; });
    std::vector<Rank> participants;
    participants.reserve(order.size());
    for (const std::size_t i : order) participants.push_back(ranks[i]);
    std::vector<std::string> sorted = parts;
    if (shape == ExchangeShape::transpose) {
      for (std::size_t i = 0; i < order.size(); ++i) sorted[i] = std::move(parts[order[i]]);
    }
    const auto root = std::ranges::find(order, std::size_t{0}) - order.begin();
    std::vector<std::string> reply;
    try {
      reply = membership->exchange(
          name, std::move(sorted),
          {.shape = shape, .root = static_cast<Rank>(root), .timeout = timeout}, participants);
    } catch (const TimedOut& late) {
      std::vector<Missing> missing = late.missing();
      for (Missing& one : missing) one.rank = static_cast<Rank>(order.at(one.rank));
      throw TimedOut(late.what(), std::move(missing));
    }
    if (shape == ExchangeShape::from_root) return reply;
    std::vector<std::string> own(reply.size());
    for (std::size_t i = 0; i < order.size(); ++i) own[order[i]] = std::move(reply[i]);
    return own;
  };
}

/// Called when a group could not be opened because a rank was unreachable. Waits up to
/// kReasonPatience for the daemon to say why the generation has ended. Returns a failure with code
/// `aborted` and the daemon's reason. If the daemon gives no reason, the failure has the text and
/// the ranks of the exception `lost`. If `lost` names no rank either, returns nullopt.
std::optional<Failure> reason_of(const Unavailable& lost, Membership& membership,
                                 std::uint64_t generation, const std::string& name) {
  const std::string opening = "process group \"" + name + "\" was not opened: ";
  if (const auto end =
          collectives::await_end(membership, generation, collectives::kReasonPatience)) {
    Failure reason = collectives::failure_of(*end);
    reason.detail = opening + reason.detail;
    return reason;
  }
  if (lost.missing().empty()) return std::nullopt;
  Failure reason =
      failure(Code::aborted, opening + lost.what() + ", not yet confirmed by the daemon");
  reason.missing = client::ranks_of(lost.missing());
  return reason;
}

class ClientRecorder final : public CollectiveRecorder {
 public:
  explicit ClientRecorder(std::shared_ptr<Client> client) : client_(std::move(client)) {}
  std::shared_ptr<CollectiveSeries> series(std::string_view process_group,
                                           std::string_view collective,
                                           std::string_view backend) override {
    return client_->collective_series(process_group, collective, backend);
  }

 private:
  const std::shared_ptr<Client> client_;
};

/// Reports groups over the connection of a client.
collectives::ActivityLink link_of(const Client& client) {
  const auto reporter = client::activity_of(client);
  const auto explain = [reporter, connection = client::connection_of(client)](
                           std::uint64_t process_group,
                           bool anew) -> std::optional<ActivityDiagnosis> {
    if (connection->since_confirmed() > kSilenceMax) return std::nullopt;
    return reporter->explain(*connection, process_group, kReplyPatience, anew);
  };
  return {.job = client.job(),
          .open =
              [reporter](client::WatchedGroup group) {
                reporter->open(std::move(group), collectives::all_issuing_threads_wait);
              },
          .close = [reporter](std::uint64_t process_group) { reporter->close(process_group); },
          .explain = explain};
}

/// Opens a group whose collectives the daemon counts in its metrics. A group of several ranks is
/// reported to the daemon, too.
std::shared_ptr<collectives::AbortableGroup> open_watched(
    const std::shared_ptr<IntroducingBootstrap>& bootstrap, World world, GroupOptions options,
    collectives::GroupContext context) {
  const std::shared_ptr<Client> client = bootstrap->client();
  options = collectives::with_backend(std::move(options));
  options.hooks.push_back(measure_into(std::make_shared<ClientRecorder>(client), options.backend));
  if (world.size < 2) {
    return collectives::open_group(bootstrap, std::move(world), std::move(options),
                                   std::move(context));
  }
  const auto reported = collectives::ReportedGroup::attach(link_of(*client), options, context);
  auto group =
      collectives::open_group(bootstrap, std::move(world), std::move(options), std::move(context));
  reported->open(bootstrap->process_group(), *group);
  return group;
}

/// Opens a group of a World that the caller has given.
std::shared_ptr<ProcessGroup> open_given(std::shared_ptr<Client> client, World world,
                                         GroupOptions options, collectives::Exchange exchange,
                                         std::string family = {},
                                         collectives::OpenBackend open = {}) {
  collectives::GroupContext context{.family = std::move(family), .open_backend = std::move(open)};
  context.among = [client, world](const std::vector<Rank>& ranks, const std::string& name) {
    World child = world;
    child.name = name;
    child.size = static_cast<Rank>(ranks.size());
    child.rank = static_cast<Rank>(std::ranges::find(ranks, world.rank) - ranks.begin());
    return exchange_by(client, child);
  };
  context.meet = [client, world](Duration timeout) {
    client->barrier("process_group/" + world.name, {.rank = world.rank,
                                                    .world_size = world.size,
                                                    .generation = world.generation,
                                                    .timeout = timeout});
  };
  context.open_child = [client](collectives::ChildGroup child) {
    return open_given(client, std::move(child.world), std::move(child.options),
                      std::move(child.exchange), std::move(child.family), std::move(child.open));
  };
  const auto bootstrap =
      std::make_shared<IntroducingBootstrap>(std::move(client), std::move(exchange));
  return open_watched(bootstrap, std::move(world), std::move(options), std::move(context));
}

/// Opens a group of members of a generation, which is aborted when the generation ends.
/// `job_ranks`: the ranks of these members in the generation. `watch`: the result of
/// abort_groups_at_end().
std::shared_ptr<ProcessGroup> open_bound(
    std::shared_ptr<Membership> membership,  // NOLINT(performance-unnecessary-value-param)
    World world, const std::vector<Rank>& job_ranks, GroupOptions options,
    collectives::Exchange exchange, const std::shared_ptr<void>& watch, std::string family = {},
    collectives::OpenBackend open = {}) {
  collectives::GroupContext context{.reason_patience = collectives::kReasonPatience,
                                    .family = std::move(family),
                                    .open_backend = std::move(open),
                                    .membership = membership,
                                    .kept = watch};
  context.among = [membership, job_ranks](const std::vector<Rank>& ranks, const std::string& name) {
    std::vector<Rank> participants;
    participants.reserve(ranks.size());
    for (const Rank rank : ranks) participants.push_back(job_ranks[rank]);
    return exchange_by(membership, name, participants);
  };
  context.meet = [membership, job_ranks, name = world.name](Duration timeout) {
    std::vector<Rank> participants = job_ranks;
    std::ranges::sort(participants);
    try {
      membership->barrier("process_group/" + name, timeout, participants);
    } catch (const TimedOut& late) {
      std::vector<Missing> missing = late.missing();
      for (Missing& one : missing) {  // the daemon counts in the list of participants
        const Rank job_rank = participants.at(one.rank);
        one.rank = static_cast<Rank>(std::ranges::find(job_ranks, job_rank) - job_ranks.begin());
      }
      throw TimedOut(late.what(), std::move(missing));
    }
  };
  context.open_child = [membership, watch](collectives::ChildGroup child) {
    std::vector<Rank> ranks;
    for (const GroupMember& member : child.world.members) ranks.push_back(member.job_rank);
    return open_bound(membership, std::move(child.world), ranks, std::move(child.options),
                      std::move(child.exchange), watch, std::move(child.family),
                      std::move(child.open));
  };
  const std::uint64_t generation = world.generation;
  const std::string name = world.name;
  const auto bootstrap =
      std::make_shared<IntroducingBootstrap>(membership->client(), std::move(exchange));
  try {
    auto group = open_watched(bootstrap, std::move(world), std::move(options), std::move(context));
    // The generation may have ended before the group was registered.
    collectives::GroupRegistry::instance().abort_ended(*membership, membership->state());
    return group;
  } catch (const Unavailable& lost) {
    if (const auto reason = reason_of(lost, *membership, generation, name)) {
      client::throw_failure(*reason);
    }
    throw;
  }
}

}  // namespace

std::shared_ptr<ProcessGroup> ProcessGroup::open(std::shared_ptr<Client> client, World world,
                                                 GroupOptions options) {
  if (!client) throw InvalidArgument("process group \"" + world.name + "\": client is null");
  auto exchange = exchange_by(client, world);
  return open_given(std::move(client), std::move(world), std::move(options), std::move(exchange));
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
  const Generation now = membership->generation();
  const World world = {.rank = now.rank,
                       .size = now.size,
                       .generation = now.number,
                       .name = membership->group(),
                       .kind = std::move(kind)};
  std::vector<Rank> ranks(now.size);
  std::iota(ranks.begin(), ranks.end(), Rank{0});
  auto exchange = exchange_by(membership, world.name);
  auto watch = collectives::abort_groups_at_end(*membership);
  return open_bound(std::move(membership), world, ranks, std::move(options), std::move(exchange),
                    watch);
}

}  // namespace c10dd
