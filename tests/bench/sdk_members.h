// SPDX-License-Identifier: Apache-2.0
// Members of one group as clients of the SDK, in this process, which live through the death of the
// daemon. Throws std::runtime_error when one of them is fenced or lost, or the group has ended.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "client/client.h"
#include "client/membership.h"

#include "tests/bench/line.h"

namespace c10dd::bench {

class SdkMembers {
 public:
  /// All join one group of the job "bench" in this run; returns when it has formed.
  SdkMembers(const Address& daemon, const std::string& run, unsigned members);

  /// Waits until each has a session with the daemon that was just started, and has heard from it
  /// that the generation goes on. Throws if a member was fenced or lost since the start.
  void must_be_whole();

 private:
  struct Member {
    std::shared_ptr<Client> client;
    std::shared_ptr<Membership> membership;
    std::uint64_t connects = 0;  ///< ClientStats::connects at the last check
  };
  std::vector<Member> members_;
  struct Trouble;
  std::shared_ptr<Trouble> trouble_;
  std::vector<std::shared_ptr<void>> listeners_;
};

}  // namespace c10dd::bench
