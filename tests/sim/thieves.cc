// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/thieves.h"

#include <algorithm>
#include <utility>

#include "daemon/core/job/job.h"
#include "protocol/format.h"

namespace c10dd::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::uint64_t kFirstConnection = std::uint64_t{1} << 60;
constexpr std::uint64_t kJobs = 4;  // the first numbers of jobs

/// Gets what the hello of a thief gets.
class Loot final : public core::ReplySink {
 public:
  Loot(World& world, SessionId session) : world_(world), session_(session) {}

  void deliver(std::uint32_t, const core::OutgoingReply& reply, const Stamp&) override {
    if (!reply.result) return;
    world_.violated("owners", format("session {:x}-{:x} was opened for another principal",
                                     session_.high, session_.low));
  }
  void end_session(std::uint32_t, const Failure&) override {}
  void flush() override {}

 private:
  World& world_;
  const SessionId session_;
};

}  // namespace

void Thieves::begin() {
  if (stopped_) return;
  const std::shared_ptr<Daemon>& daemon = fleet_[random_.below(fleet_.size())];
  if (!daemon->dead() && daemon->serves()) come(daemon);
  world_.after(random_.skewed(milliseconds(50), seconds(5)),
               [self = shared_from_this()] { self->begin(); });
}

void Thieves::come(const std::shared_ptr<Daemon>& daemon) {
  const std::shared_ptr<Shard> shard = daemon->shard_of(1 + random_.below(kJobs));
  const bool observes = random_.chance(50);
  const std::uint64_t choice = random_.next();
  const std::uint64_t connection = kFirstConnection + ++connections_;
  shard->post([this, self = shared_from_this(), daemon, shard, observes, choice, connection] {
    if (daemon->dead()) return;
    std::vector<std::pair<JobNumber, SessionId>> known;
    for (const auto& [number, slot] : shard->host().jobs()) {
      if (!slot->serving || !slot->in_use || slot->moving) continue;
      for (const auto& [session, attachment] : slot->attached) {
        // After its goodbye, the session is attached until the reply is durable, but has no owner.
        const bool owned = attachment->from.principal && slot->job->knows(session);
        if (owned) known.emplace_back(number, session);
      }
    }
    if (known.empty()) return;
    std::ranges::sort(known);
    const auto& [number, session] = known[choice % known.size()];
    const core::JobRef slot = shard->host().jobs().find(number);
    Hello hello;
    hello.version_min = hello.version_max = kProtocolVersion;
    hello.session = session;
    hello.job = slot->name;
    hello.run = slot->run;
    hello.host = "thief";
    hello.pid = 1;
    world_.note("thief", number, observes ? 1 : 0);
    core::HelloRequest request{.sink = std::make_shared<Loot>(world_, session),
                               .channel = 1,
                               .sequence = 1,
                               .connection = connection,
                               .hello = std::move(hello),
                               .on_open = [](const core::JobRef&, const core::AttachmentRef&) {},
                               .client = "10.9.9.9",
                               .caller = {"thief", observes ? Access::observe : Access::admin, {}}};
    shard->host().hello(std::move(request));
  });
}

}  // namespace c10dd::sim
