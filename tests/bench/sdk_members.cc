// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/sdk_members.h"

#include <chrono>
#include <future>
#include <mutex>
#include <stdexcept>
#include <thread>

namespace c10dd::bench {
namespace {

constexpr std::chrono::seconds kMembersPatience{60};
constexpr std::chrono::milliseconds kBetweenLooks{20};

}  // namespace

/// The first status in which a member is fenced or the generation has ended.
struct SdkMembers::Trouble {
  std::mutex mutex;
  std::string what;
};

SdkMembers::SdkMembers(const Address& daemon, const std::string& run, unsigned members)
    : trouble_(std::make_shared<Trouble>()) {
  const std::string url = "c10dd://" + daemon.host + ":" + std::to_string(daemon.port) + "/bench";
  std::vector<std::future<Member>> joins;
  for (unsigned i = 0; i < members; ++i) {
    joins.push_back(std::async(std::launch::async, [&] {
      ClientOptions options;
      options.run = run;
      Member member;
      member.client = Client::connect(url, options);
      RendezvousOptions rules;
      rules.group = "members";
      rules.min = rules.max = members;
      rules.timeout = kMembersPatience;
      member.membership = member.client->rendezvous(rules);
      member.connects = member.client->stats().connects;
      return member;
    }));
  }
  for (auto& join : joins) members_.push_back(join.get());
  for (const Member& member : members_) {
    const std::uint64_t generation = member.membership->generation().number;
    listeners_.push_back(
        member.membership->on_change([trouble = trouble_, generation](const GroupState& state) {
          const std::lock_guard lock(trouble->mutex);
          if (!trouble->what.empty() || !state.ended(generation)) return;
          trouble->what = (state.fenced ? "a member was fenced: " : "the generation has ended: ") +
                          state.reason;
        }));
  }
}

void SdkMembers::must_be_whole() {
  const auto check = [this] {
    const std::lock_guard lock(trouble_->mutex);
    if (!trouble_->what.empty()) throw std::runtime_error("members: " + trouble_->what);
  };
  const auto deadline = std::chrono::steady_clock::now() + kMembersPatience;
  for (Member& member : members_) {
    for (std::uint64_t now = 0; now <= member.connects; now = member.client->stats().connects) {
      check();
      throw_if_interrupted();
      if (std::chrono::steady_clock::now() > deadline) {
        throw std::runtime_error("members: one has no session after 60 s");
      }
      std::this_thread::sleep_for(kBetweenLooks);
    }
    member.connects = member.client->stats().connects;
    member.membership->members();
  }
  std::this_thread::sleep_for(std::chrono::seconds(3));  // longer than the ttl of a member
  check();
}

}  // namespace c10dd::bench
