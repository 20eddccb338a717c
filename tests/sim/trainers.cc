// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/trainers.h"

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "daemon/core/job/job.h"

namespace c10dd::sim {
namespace {

using std::chrono::milliseconds;

constexpr const char* kQueue = "tasks";
constexpr const char* kCounter = "arrived";
constexpr std::int64_t kRanks = 3;
constexpr std::uint64_t kConsumers = 3;

}  // namespace

/// The trainers of one plain run, which lives as long as the daemon.
struct Trainers::Launch {
  std::shared_ptr<Daemon> daemon;
  std::shared_ptr<Shard> home;  ///< has the run
  std::string run;
  std::vector<std::shared_ptr<Trainer>> trainers;
  std::uint64_t pushed = 0;
  std::map<Bytes, int> popped;
  std::int64_t arrived = 0;  ///< at counters; of requests that were passed to the host
};

class Trainers::Trainer final : public core::ReplySink {
 public:
  Trainer(Trainers& all, std::shared_ptr<Launch> its, Role what)
      : launch(std::move(its)), role(what), all_(all) {}

  void deliver(std::uint32_t, const core::OutgoingReply& reply, const Stamp&) override {
    if (!closed) all_.replied(*this, reply.sequence, reply.result);
  }
  void end_session(std::uint32_t, const Failure& reason) override {
    if (!closed) all_.violated("a run in memory has lost a session: " + reason.detail);
  }
  void flush() override {}

  const std::shared_ptr<Launch> launch;
  const Role role;
  core::JobRef job;
  core::AttachmentRef attachment;
  bool closed = false;
  std::uint64_t sequence = 0;
  std::optional<Request> asked;  ///< has no reply yet
  bool blocked = false;          ///< the host says so of `asked`
  bool has_waited = false;       ///< a consumer whose wait has ended, and which has not popped
  std::int64_t rounds = 0;       ///< a rank has begun so many
  bool arrives = false;          ///< a rank that has counted itself, and has not waited

 private:
  Trainers& all_;
};

void Trainers::begin() {
  if (stopped_) return;
  const bool needed = !launch_ || launch_->daemon->dead();
  if (needed && !daemon_()->dead() && !daemon_()->draining()) launch();
  world_.after(random_.between(milliseconds(20), milliseconds(300)), [this] { begin(); });
}

void Trainers::launch() {
  if (launch_) forget(*launch_);
  auto launch = std::make_shared<Launch>();
  launch_ = launch;
  launch->daemon = daemon_();
  launch->run = "plain-" + std::to_string(++launches_);
  launch->daemon->open_volatile(std::string(kJob), launch->run, [this, launch](JobNumber number) {
    launch->home = launch->daemon->shard_of(number);
    launch->home->post([this, launch] {
      add(launch, Role::producer);
      for (std::uint64_t i = 0; i < kConsumers; ++i) add(launch, Role::consumer);
      for (std::int64_t i = 0; i < kRanks; ++i) add(launch, Role::rank);
    });
  });
}

/// Opens a session. Called in a turn of the run's home.
void Trainers::add(const std::shared_ptr<Launch>& launch, Role role) {
  auto trainer = std::make_shared<Trainer>(*this, launch, role);
  launch->trainers.push_back(trainer);
  core::HelloRequest request{trainer, 0, 0, (std::uint64_t{1} << 40) + ++sessions_, {}, {}};
  request.hello.session = {7, sessions_};
  request.hello.job = kJob;
  request.hello.run = launch->run;
  request.hello.fleeting = true;
  request.hello.c10d = true;
  trainer->asked = request.hello;
  request.on_open = [trainer](const core::JobRef& job, const core::AttachmentRef& attachment) {
    trainer->job = job;
    trainer->attachment = attachment;
  };
  launch->home->host().hello(std::move(request));
  act_later(trainer);
}

void Trainers::act_later(const std::shared_ptr<Trainer>& trainer) {
  world_.after(random_.skewed(milliseconds(1), milliseconds(80)), [this, trainer] {
    const std::shared_ptr<Shard> home = trainer->launch->home;
    if (trainer->closed || home->dead()) return;
    home->post([this, trainer] { act(trainer); });
  });
}

void Trainers::act(const std::shared_ptr<Trainer>& trainer) {
  if (trainer->closed) return;
  const bool waits = trainer->asked && trainer->blocked;
  const bool opens = trainer->asked && std::holds_alternative<Hello>(*trainer->asked);
  if (opens) return act_later(trainer);  // the directory may be on another loop
  if (trainer->asked && !waits) {
    return violated("a request that was answered in an earlier turn has no reply");
  }
  if (trainer->role == Role::consumer && random_.chance(6)) {
    return lose_connection(trainer);
  }
  if (!waits && trainer->role == Role::producer) produce(*trainer);
  if (!waits && trainer->role == Role::consumer) consume(*trainer);
  if (!waits && trainer->role == Role::rank) count(*trainer);
  act_later(trainer);
}

void Trainers::submit(Trainer& trainer, const Request& request) {
  trainer.asked = request;
  const core::CallId call{.sequence = ++trainer.sequence};
  const core::Submitted what =
      trainer.launch->home->host().submit(trainer.job, trainer.attachment, call, request);
  trainer.blocked = what == core::Submitted::blocked;
  if (what == core::Submitted::ignored) violated("a request of a connected session is ignored");
  if (trainer.blocked && info_of(request).kind != OpKind::wait) violated("a write is blocked");
}

void Trainers::produce(Trainer& trainer) {
  if (stopped_ || random_.chance(30)) return;
  submit(trainer, QueuePush{kQueue, std::to_string(++trainer.launch->pushed)});
}

/// Waits, then pops; sometimes asks for something else in between, and so gives its item up.
void Trainers::consume(Trainer& trainer) {
  if (!trainer.has_waited) return submit(trainer, Wait{{kQueue}, Duration::max()});
  trainer.has_waited = false;
  if (random_.chance(10)) return submit(trainer, QueueLength{kQueue});
  submit(trainer, QueuePop{kQueue, {}});
}

/// Counts itself, then waits for the others.
void Trainers::count(Trainer& trainer) {
  if (trainer.arrives) {
    trainer.arrives = false;
    return submit(trainer, WaitCounter{kCounter, kRanks * trainer.rounds, Duration::max()});
  }
  if (stopped_ && trainer.rounds * kRanks >= trainer.launch->arrived) return;
  ++trainer.rounds;
  ++trainer.launch->arrived;
  trainer.arrives = true;
  submit(trainer, Add{kCounter, 1, true});
}

/// Closes the connection, whatever the trainer waits for, and opens another one. A pop has its
/// reply by now, so no item is lost.
void Trainers::lose_connection(const std::shared_ptr<Trainer>& trainer) {
  trainer->closed = true;
  const std::shared_ptr<Launch> launch = trainer->launch;
  std::erase(launch->trainers, trainer);
  launch->home->host().detach(trainer->job, trainer->attachment);
  trainer->job = nullptr;
  trainer->attachment = nullptr;
  if (!launch->daemon->draining()) add(launch, trainer->role);
}

void Trainers::replied(Trainer& trainer, std::uint64_t sequence, const Reply& reply) {
  if (!trainer.asked || sequence != trainer.sequence) return violated("a second reply");
  const Request asked = *std::exchange(trainer.asked, std::nullopt);
  trainer.blocked = false;
  Launch& launch = *trainer.launch;
  if (!reply) {
    if (std::holds_alternative<Hello>(asked) && launch.daemon->draining()) {
      trainer.closed = true;
      return;
    }
    return violated(std::string(info_of(asked).name) + ": " + reply.error().detail);
  }
  if (std::holds_alternative<Wait>(asked)) trainer.has_waited = true;
  if (std::holds_alternative<QueuePop>(asked)) {
    const auto& popped = std::get<Popped>(*reply);
    if (++launch.popped[popped.value] > 1) violated("item " + popped.value + " is popped twice");
    if (popped.length == 0) violated("a pop from an empty queue");
  }
  const auto* wait = std::get_if<WaitCounter>(&asked);
  if (wait != nullptr && launch.arrived < wait->at_least) {
    violated("a rank leaves a counter before the others have come");
  }
}

void Trainers::check() {
  if (!launch_ || launch_->daemon->dead() || !launch_->home) return;
  const std::shared_ptr<Launch> launch = launch_;
  if (launch->trainers.empty() || launch->daemon->draining()) return;
  if (launch->popped.size() != launch->pushed) {
    violated(std::to_string(launch->pushed) + " items were pushed, but " +
             std::to_string(launch->popped.size()) + " popped");
  }
  for (const auto& trainer : launch->trainers) {
    if (trainer->role == Role::rank && trainer->asked) {
      violated("a rank still waits at a counter that all have reached");
    }
  }
  const core::JobRef job = launch->trainers.front()->job;
  if (const core::AuditResult found = job ? job->job->audit() : std::nullopt) violated(*found);
  launch->home->post([launch] {
    for (const auto& trainer : launch->trainers) {
      if (trainer->job) launch->home->host().detach(trainer->job, trainer->attachment);
    }
    forget(*launch);
  });
}

/// Trainers and their launch refer to each other.
void Trainers::forget(Launch& launch) {
  for (const auto& trainer : std::exchange(launch.trainers, {})) {
    trainer->closed = true;
    trainer->job = nullptr;
    trainer->attachment = nullptr;
  }
}

Trainers::~Trainers() {
  if (launch_) forget(*launch_);
}

}  // namespace c10dd::sim
