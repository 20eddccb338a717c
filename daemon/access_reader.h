// SPDX-License-Identifier: Apache-2.0
// AccessReader: reads the files of --tls and --grants on a thread, because a file system that hangs
// must hold no client up.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/config/access_files.h"
#include "daemon/config/access_rules.h"
#include "daemon/shard/loop.h"
#include "protocol/error.h"

namespace c10dd::daemon {

/// The files, their state when they were read, and the rules that follow.
struct ReadAccess {
  AccessFiles files;
  std::string state;
  std::shared_ptr<const AccessRules> rules;
};

/// Reads all files until none has changed meanwhile, so that they belong together. Blocks.
Result<ReadAccess> read_access(AccessFiles files);

/// The time of the clock on the wall.
tls::WallTime wall_now();

/// All functions are called on the loop.
class AccessReader {
 public:
  using Then = std::function<void(const std::string& state, Result<ReadAccess>)>;

  explicit AccessReader(Loop& loop);
  /// Waits for no file: a reading under way is forgotten.
  ~AccessReader();
  AccessReader(const AccessReader&) = delete;
  AccessReader& operator=(const AccessReader&) = delete;

  /// Reads the files, unless their state is one of `known`; then calls `then` on the loop. While an
  /// earlier reading has not ended, only the newest call waits for its turn.
  void read(AccessFiles files, std::vector<std::string> known, Then then);

  /// Returns for how long the reading under way has lasted; zero if there is none.
  Duration waited() const;

 private:
  struct Link;

  void begin(AccessFiles files, std::vector<std::string> known, Then then);
  void ended();

  const std::shared_ptr<Link> link_;  // shared with the thread, which may outlive this object
  std::optional<core::SteadyTime> begun_;
  std::function<void()> next_;  // empty: no call waits
};

}  // namespace c10dd::daemon
