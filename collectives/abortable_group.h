// SPDX-License-Identifier: Apache-2.0
// AbortableGroup: a ProcessGroup that can be aborted with a given Failure, for example one that
// names the lost ranks. After the loss of a peer, a group that was opened with a Membership does
// not fail at once. It first waits a moment for a call of abort() with the daemon's reason.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "client/exchange.h"
#include "collectives/process_group.h"
#include "protocol/error.h"

namespace c10dd::collectives {

/// A process group that can be aborted with any failure.
class AbortableGroup : public ProcessGroup {
 public:
  using ProcessGroup::abort;

  /// Like abort(text), but pending and later work fails with the code, text and ranks of `reason`.
  virtual void abort(Failure reason) = 0;

  /// Returns what aborts the group with a reason that says all: nothing is added to it. Does not
  /// keep the group, and does nothing after its end.
  virtual std::function<void(const Failure&)> aborter() = 0;
};

/// Exchanges parts among the ranks of some group; see Client::exchange(). The root is rank 0.
using Exchange = std::function<std::vector<std::string>(ExchangeShape, std::vector<std::string>,
                                                        Duration timeout)>;

class Backend;
struct BackendSetup;

/// Opens a backend.
using OpenBackend = std::function<Result<std::unique_ptr<Backend>>(const BackendSetup&)>;

/// A group of some ranks of another group, before it is opened.
struct ChildGroup {
  World world;
  GroupOptions options;
  Exchange exchange;      ///< among its ranks
  std::string family;     ///< GroupContext::family
  OpenBackend open = {};  ///< GroupContext::open_backend
};

/// What a group gets from the code that opens it, besides its backend.
struct GroupContext {
  /// How long a collective that has lost a peer waits for a call of abort(), which gives the
  /// reason. If nobody calls abort() in this time, the collective fails with `aborted` and a text
  /// that says "not yet confirmed". If 0, the collective fails at once with the failure of the
  /// backend.
  Duration reason_patience{0};
  /// Adds to the failure of an operation what the daemon knows of the cause. Returns true if the
  /// failure is only a consequence of another one, which is then in its place. Called on the thread
  /// that ends the operation; may block for a moment. May be empty.
  std::function<bool(const CollectiveCall&, Failure&)> explain = {};
  /// Returns an Exchange among these ranks of the group, for the group named `name`. May be empty.
  std::function<Exchange(const std::vector<Rank>& ranks, const std::string& name)> among = {};
  /// Waits at a barrier of the daemon until all ranks of the group have come. Throws TimedOut,
  /// whose missing() has ranks of the group. May be empty.
  std::function<void(Duration timeout)> meet = {};
  /// Opens a group of some ranks of this group. May be empty.
  std::function<std::shared_ptr<ProcessGroup>(ChildGroup)> open_child = {};
  /// The name of the group from which new_group() or split() has made this group, directly or not.
  /// If empty, the group's own name; see GroupRegistry.
  std::string family = {};
  /// Opens the backend. If empty, the backend that the options name is opened.
  OpenBackend open_backend = {};
  /// The membership whose generations end this group, or null.
  std::shared_ptr<Membership> membership = {};
  /// Destroyed after the group.
  std::shared_ptr<void> kept = {};
};

/// Returns a group that runs its operations on `backend`, which is open. Does not block.
std::shared_ptr<AbortableGroup> group_over(std::shared_ptr<Backend> backend, World world,
                                           GroupOptions options, GroupContext context = {});

/// Like ProcessGroup::open().
std::shared_ptr<AbortableGroup> open_group(const std::shared_ptr<Bootstrap>& bootstrap, World world,
                                           GroupOptions options, GroupContext context = {});

}  // namespace c10dd::collectives
