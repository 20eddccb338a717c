// SPDX-License-Identifier: Apache-2.0
// ProcessGroup: collectives among the members of one World. All methods are safe from any thread.
// Every rank issues the same collectives in the same order; one worker thread per group runs them
// in that order. After the first failure the group is dead: all further work fails at once with the
// first reason, and a new generation opens a new group. Standard library only.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <c10dd/bootstrap.h>
#include <c10dd/hooks.h>
#include <c10dd/tensor.h>
#include <c10dd/types.h>
#include <c10dd/work.h>

namespace c10dd {

class Client;
class Membership;

struct GroupOptions {
  std::string backend = "gloo";  ///< gloo or loopback (ranks are threads of one process)
  Duration timeout = std::chrono::minutes(10);      ///< of one collective, from its start
  Duration open_timeout = std::chrono::minutes(5);  ///< of barrier and connecting the others
  std::string interface = {};  ///< network interface of TCP backends, such as "eth0"
  std::string hostname = {};   ///< or the own address; default: Bootstrap::local_address()
  std::vector<std::shared_ptr<Hook>> hooks = {};
};

class ProcessGroup {
 public:
  /// Blocks until all members have opened the group. Throws TimedOut, InvalidArgument (also for a
  /// backend that does not exist; the text says where it was looked for) or Unavailable.
  static std::shared_ptr<ProcessGroup> open(std::shared_ptr<Bootstrap> bootstrap, World world,
                                            GroupOptions options = {});

  /// The same through the daemon: one exchange introduces the members, and every collective is
  /// counted in the daemon's metrics. The group keeps the client.
  static std::shared_ptr<ProcessGroup> open(std::shared_ptr<Client> client, World world,
                                            GroupOptions options = {});

  /// The same for all processes that the launcher has started: rank and world size are the
  /// client's. Throws InvalidArgument when it has none. `kind` as in World.
  static std::shared_ptr<ProcessGroup> open(std::shared_ptr<Client> client,
                                            GroupOptions options = {}, std::string kind = "dp");

  /// The members of a rendezvous, in its newest generation. As soon as that generation ends (a
  /// member is lost, leaves or asks for the next one, or this process is cut off from the daemon)
  /// the group is aborted with the reason, which names ranks and hosts: nobody waits for a
  /// time-out. Keep the membership: its end leaves the group. `kind` as in World.
  static std::shared_ptr<ProcessGroup> open(std::shared_ptr<Membership> membership,
                                            GroupOptions options = {}, std::string kind = "dp");

  virtual ~ProcessGroup() = default;  ///< aborts what is still pending

  /// In place: every rank ends with the reduction over all ranks.
  virtual WorkPtr all_reduce(Tensor tensor, ReduceOp op = ReduceOp::sum,
                             std::optional<Duration> timeout = {}) = 0;

  /// In place: every rank ends with what `root` has.
  virtual WorkPtr broadcast(Tensor tensor, Rank root, std::optional<Duration> timeout = {}) = 0;

  /// `output` has size() times the elements of `input` and ends with all inputs in rank order.
  virtual WorkPtr all_gather_single(Tensor output, Tensor input,
                                    std::optional<Duration> timeout = {}) = 0;

  /// Done when every rank has issued it.
  virtual WorkPtr barrier(std::optional<Duration> timeout = {}) = 0;

  virtual const World& world() const = 0;
  virtual std::string_view backend() const = 0;
  Rank rank() const { return world().rank; }
  Rank size() const { return world().size; }
  const std::string& kind() const { return world().kind; }

  /// Ends the group at once: running and queued work fails with `reason`, no memory of theirs is
  /// touched any more once their status says so. Only this rank is told; over a network, peers
  /// notice lost connections a moment later unless somebody tells them the reason first.
  virtual void abort(const std::string& reason) = 0;

  /// Runs what was issued, then closes. Later calls give abandoned work.
  virtual void shutdown() = 0;
};

}  // namespace c10dd
