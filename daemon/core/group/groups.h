// SPDX-License-Identifier: Apache-2.0
// All groups of a job. Every call that may change a group touches it, and settle() brings the
// touched groups up to date: it must follow before the rows of the step are stored.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "daemon/core/group/deadlines.h"
#include "daemon/core/group/group.h"
#include "daemon/core/group/liveness.h"
#include "daemon/core/group/stored_group.h"

namespace c10dd::core {

class Groups {
 public:
  // ---- requests of members
  Result<void> join(const SessionId& id, const Session& session, const Join& request, Moment& at);
  void leave(const SessionId& id, const Leave& request, Moment& at);
  void withdraw(const SessionId& id, const std::string& group, const std::string& why, Moment& at);
  Result<std::uint64_t> notify(const Notify& request, Moment& at);
  Result<void> acknowledge(const SessionId& id, const Acknowledge& request, Moment& at);
  Result<void> progress(const SessionId& id, const Progress& report, Moment& at);

  // ---- what happens to sessions
  void connected(const SessionId& id, TimePoint now);
  void disconnected(const SessionId& id, TimePoint now);
  /// It leaves all its groups.
  void ended(const SessionId& id, const std::string& why, Moment& at);

  /// Does what has become due.
  void tick(const Sessions& sessions, Moment& at);
  std::optional<TimePoint> next_deadline() const;

  /// What members are told of a group.
  struct ChangedGroup {
    const Group* group;
    bool formed;  ///< a generation
    bool ended;   ///< one
    std::vector<Rank> stalled;
  };
  /// Lets touched groups form, writes their rows, and tells whose waiters must be looked at.
  std::vector<ChangedGroup> settle(Moment& at);
  /// Whether settle() has nothing to do.
  bool settled() const { return touched_.empty(); }

  bool empty() const { return groups_.empty(); }
  const Group* find(const std::string& name) const;
  /// not_found with what to do.
  Result<const Group*> known(const std::string& name) const;
  /// Of all groups together.
  const Attendance& attendance() const { return attendance_; }

  static bool owns(const Row& row) {
    return !row.key.empty() && std::string_view("gml").find(row.key[0]) != std::string_view::npos;
  }
  Result<void> restore(const Row& row);
  /// After the last row of a job of this revision: no member is present, and every deadline starts
  /// in full.
  Result<void> resume(Revision newest, TimePoint now);
  /// The members; when their sessions end, ended() must be called.
  std::vector<SessionId> members() const { return liveness_.members(); }
  Revision newest() const;

 private:
  Group* open(const std::string& name);
  void count(const std::string& name, const Group& group);

  std::map<std::string, Group> groups_;
  std::map<std::string, StoredGroup> stored_;  // until resume()
  std::map<std::string, Attendance> counted_;  // as it is in attendance_
  Attendance attendance_;
  std::set<std::string> touched_;
  Liveness liveness_;
  Deadlines<std::string> deadlines_;  // of groups
};

}  // namespace c10dd::core
