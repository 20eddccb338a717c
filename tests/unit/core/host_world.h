// SPDX-License-Identifier: Apache-2.0
// Hosts of jobs on loops over a memory engine. The test turns the loops by hand: posted calls run
// when their loop turns; batches and pieces of rows wait until the test lets them through.
#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "daemon/core/directory/directory_host.h"
#include "daemon/core/directory/directory_rows.h"
#include "daemon/core/host/job_host.h"
#include "store/job_load.h"
#include "store/memory_engine.h"

namespace c10dd::core {

/// A connection, which records as text everything that it gets, in order.
class TestSink : public ReplySink {
 public:
  void deliver(std::uint32_t channel, const OutgoingReply& reply, const Stamp&) override {
    got.push_back(std::to_string(channel) + ":" + std::string(find_op(reply.op)->name) + " " +
                  std::string(reply.result ? "ok" : name_of(reply.result.error().code)));
    if (reply.result) return;
    refusal = reply.result.error();
    detail = reply.result.error().detail;
    addresses = reply.result.error().addresses;
  }
  void end_session(std::uint32_t channel, const Failure& reason) override {
    got.push_back(std::to_string(channel) + ":ended " + std::string(name_of(reason.code)));
    detail = reason.detail;
    addresses = reason.addresses;
  }
  void flush() override { ++flushes; }

  std::vector<std::string> take() { return std::exchange(got, {}); }

  std::vector<std::string> got;
  Failure refusal;                     ///< the newest one
  std::string detail;                  ///< of the newest failure
  std::vector<std::string> addresses;  ///< likewise
  int flushes = 0;
  JobRef job;  ///< the job that a hello was admitted to
  AttachmentRef attachment = {};
};

class HostWorld : private DirectoryHost::Shell {
 public:
  /// A loop with its host.
  class Loop final : public HostLoop, private JobHost::Shell {
   public:
    Loop(HostWorld& world, DirectoryHost& directory)
        : world_(world), host(*this, *this, directory, world.growth, {Quotas{}, "test"}) {}

    void post(std::function<void()> f) override { inbox.push_back(std::move(f)); }
    void dispatch(std::function<void()> f) override {
      if (turning_) return f();
      post(std::move(f));
    }
    SteadyTime now() const override { return world_.clock; }

    /// Runs what was posted, and f before it, then ends the turn.
    void turn(const std::function<void()>& f = {}) {
      turning_ = true;
      if (f) f();
      while (!inbox.empty()) {
        const auto next = std::move(inbox.front());
        inbox.pop_front();
        next();
      }
      host.end_turn();
      turning_ = false;
    }

    std::deque<std::function<void()>> inbox;
    std::vector<std::string> told;
    int counted = 0;  ///< jobs whose metric series have begun and not ended

   private:
    void commit(store::CommitBatch batch) override {
      world_.engine_work.push_back([this, batch = std::move(batch)] {
        store::CommitResult result{batch.number, {}, {}, {}};
        if (std::exchange(world_.fail_next, false)) {
          result.jobs.assign(batch.jobs.size(), store::Outcome::unknown);
          result.confirms.assign(batch.confirms.size(), store::Outcome::unknown);
        } else {
          result.jobs = world_.engine->commit(batch.jobs);
          result.confirms = world_.engine->confirm(batch.confirms);
        }
        post([this, g = world_.generation, result] { host.committed(g, result); });
      });
    }
    void load(const JobRef& slot, std::shared_ptr<store::JobLoad> load) override {
      told.push_back("load " + slot->name);
      world_.engine_work.push_back([this, slot, load] { read_on(slot, load); });
    }
    void read_on(const JobRef& slot, const std::shared_ptr<store::JobLoad>& load) {
      store::JobPiece piece = load->next(*world_.engine, world_.piece_rows);
      if (!piece.last) world_.engine_work.push_back([this, slot, load] { read_on(slot, load); });
      post([this, slot, g = world_.generation, piece] { host.loaded(g, slot, piece); });
    }
    void hand_over(const JobRef& slot, std::uint64_t to) override {
      world_.engine_work.push_back([this, slot, to] {
        const Result<void> done = world_.engine->hand_over({slot->number, slot->epoch}, to);
        post([this, slot, g = world_.generation, done] { host.handed_over(g, slot, done); });
      });
    }
    void lose_engine(std::uint64_t, const std::string& why, bool is_older) override {
      world_.lost = why;
      world_.rolled_back = is_older;
    }
    void report_damage(const std::string& what) override { told.push_back("damage " + what); }
    void performed(const JobSlot&, const Effects&, const Origin*, std::uint64_t) override {}
    void released(const OutgoingReply&) override {}
    void report(const JobSlot* slot, const HostEvent& event) override {
      if (const auto* job = std::get_if<JobCounted>(&event)) counted += job->counted ? 1 : -1;
      if (std::holds_alternative<JobServed>(event)) told.push_back("served " + slot->name);
      if (std::holds_alternative<JobLoadFailed>(event)) told.push_back("failed " + slot->name);
    }

    HostWorld& world_;
    bool turning_ = false;

   public:
    JobHost host;
  };

  /// A daemon of a fleet, by its process number.
  HostWorld(std::shared_ptr<store::SharedMemory> memory, std::uint64_t its_process)
      : HostWorld(1, true, false, std::move(memory), its_process) {}

  explicit HostWorld(std::size_t count, bool shared = false, bool is_volatile = false,
                     std::shared_ptr<store::SharedMemory> memory = nullptr,
                     std::uint64_t its_process = 0)
      : process(its_process), shared_(shared), is_volatile_(is_volatile) {
    engine = memory ? store::open_on(memory, process) : *store::open_engine("memory:");
    if (memory) fleet = store::open_fleet_on(memory);
    directory = std::make_unique<DirectoryHost>(first_loop_, static_cast<Shell&>(*this));
    for (std::size_t i = 0; i < count; ++i) {
      loops.push_back(std::make_unique<Loop>(*this, *directory));
    }
    first_loop_.loop = loops.front().get();
    if (fleet) {
      directory->join_fleet(FleetView(process, kLease));
      beat();
    }
    open();
  }

  ~HostWorld() {
    for (const auto& loop : loops) loop->host.forget();
  }

  void open() {
    auto read = read_directory(*engine, limits, 7, directory->job_time());
    ASSERT_TRUE(read);
    const Row precondition = read->directory->precondition();
    const EngineState state{++generation, read->directory->incarnation(),         shared_,
                            is_volatile_, {precondition.key, precondition.value}, fleet != nullptr};
    directory->opened(std::move(read->directory), generation);
    for (const auto& loop : loops) loop->host.engine_opened(state);
  }

  /// Sends a heartbeat, and hands the reading to the hosts. If `beats` is false, only reads.
  void beat(bool beats = true) {
    const SteadyTime sent = clock;
    const auto reading =
        beats ? fleet->beat({process, {"host" + std::to_string(process)}, "1", kLease, draining})
              : fleet->read();
    loops[0]->turn([&] { directory->heard(*reading); });
    if (!beats) return;
    const FleetNews news{directory->fleet()->lease_end(sent), directory->fleet()->addresses(),
                         directory->fleet()->others()};
    for (const auto& loop : loops) loop->turn([&] { loop->host.heard_from_fleet(news); });
  }

  /// Turns all loops, and lets the engine work, until nothing is left to do.
  void settle() {
    bool busy = true;
    for (int i = 0; i < 100 && busy; ++i) {
      work();
      for (const auto& loop : loops) loop->turn();
      busy = !engine_work.empty();
      for (const auto& loop : loops) busy = busy || !loop->inbox.empty();
    }
    ASSERT_FALSE(busy);
  }

  /// Lets through what waits for the engine.
  void work() {
    for (const auto& f : std::exchange(engine_work, {})) f();
  }

  void pass(Duration time) {
    for (Duration left = time; left > Duration(0); left -= JobTime::kTurnMax) {
      clock += std::min(left, JobTime::kTurnMax);
      for (const auto& loop : loops) loop->turn();
      directory->end_turn();
    }
  }

  int counted() const {
    int sum = 0;
    for (const auto& loop : loops) sum += loop->counted;
    return sum;
  }
  JobHost& host(std::size_t i = 0) { return loops[i]->host; }

  HelloRequest hello(const std::shared_ptr<TestSink>& sink, std::string job, std::uint64_t session,
                     std::string run = "", std::uint32_t channel = 1) {
    HelloRequest request{
        sink, channel, 0, session, {}, [sink](const JobRef& slot, const AttachmentRef& opened) {
          sink->job = slot;
          sink->attachment = opened;
        }};
    request.hello.version_min = request.hello.version_max = kProtocolVersion;
    request.hello.session = {session, session};
    request.hello.job = std::move(job);
    request.hello.run = std::move(run);
    return request;
  }

  /// Opens a session on loop i, and returns its connection. Fails the test if the hello is refused.
  std::shared_ptr<TestSink> join(const std::string& job, std::uint64_t session, std::size_t i = 0,
                                 const std::string& run = "") {
    auto sink = std::make_shared<TestSink>();
    loops[i]->turn([&] { host(i).hello(hello(sink, job, session, run)); });
    settle();
    EXPECT_EQ(sink->take(), std::vector<std::string>{"1:hello ok"}) << sink->detail;
    return sink;
  }

  /// A viewer says hello on loop 0. Returns what came of it; `detail` is the reason of a refusal.
  std::vector<std::string> observe(const std::string& job, std::uint64_t session,
                                   const std::string& run = "") {
    const auto sink = std::make_shared<TestSink>();
    HelloRequest request = hello(sink, job, session, run);
    request.caller.access = Access::observe;
    loops[0]->turn([&] { host(0).hello(std::move(request)); });
    settle();
    detail = sink->detail;
    return sink->take();
  }

  void ask(const std::shared_ptr<TestSink>& sink, std::uint64_t sequence, const Request& request,
           std::size_t i = 0) {
    host(i).submit(sink->job, sink->attachment, {sequence, 0, sequence, 0}, request);
  }

  static constexpr Duration kLease = std::chrono::seconds(2);

  const std::uint64_t process;
  std::unique_ptr<store::Fleet> fleet;  ///< null: the daemon is alone
  bool draining = false;
  std::unique_ptr<store::Engine> engine;
  std::vector<std::function<void()>> engine_work;
  bool fail_next = false;            ///< the next batch has an unknown outcome
  bool fail_next_directory = false;  ///< the next change of the directory is not committed
  DirectoryHost::DirectoryBatch last_directory;  ///< the newest change that is or was written
  std::size_t piece_rows = 1'000;
  std::size_t most_at_once = 0;  ///< jobs that the engine was asked for in one step
  std::string lost;              ///< why a host has given the engine up
  bool rolled_back = false;      ///< because it has found less than was durable
  std::vector<std::string> struck;
  std::string detail;  ///< why the newest hello of observe() was refused
  std::uint64_t generation = 0;
  SteadyTime clock;
  GrowthGate growth{std::uint64_t{1} << 40};
  Directory::Limits limits;
  std::unique_ptr<DirectoryHost> directory;
  std::vector<std::unique_ptr<Loop>> loops;

 private:
  /// Stands for the first loop until that loop exists.
  struct FirstLoop final : HostLoop {
    void post(std::function<void()> f) override { loop->post(std::move(f)); }
    void dispatch(std::function<void()> f) override { loop->dispatch(std::move(f)); }
    SteadyTime now() const override { return loop == nullptr ? SteadyTime() : loop->now(); }
    Loop* loop = nullptr;
  };

  JobHost& host_of(JobNumber number) override { return host((number - 1) % loops.size()); }
  void write(DirectoryHost::DirectoryBatch change,
             std::function<void(DirectoryHost::Written)> then) override {
    most_at_once = std::max(most_at_once, change.erased.size());
    last_directory = change;
    engine_work.push_back([this, change = std::move(change), then = std::move(then)] {
      DirectoryHost::Written written;
      if (!std::exchange(fail_next_directory, false)) written = write_directory(*engine, change);
      if (then) first_loop_.post([then, written] { then(written); });
    });
  }
  void read(Revision known, std::function<void(std::optional<DirectoryNews>)> then) override {
    read_on(std::make_shared<DirectoryReading>(limits, known), std::move(then));
  }
  void read_on(const std::shared_ptr<DirectoryReading>& reading,
               std::function<void(std::optional<DirectoryNews>)> then) {
    engine_work.push_back([this, reading, then = std::move(then)] {
      const auto news =
          std::make_shared<std::optional<DirectoryNews>>(reading->step(*engine).value());
      if (!*news) return read_on(reading, then);
      first_loop_.post([then, news] { then(std::move(*news)); });
    });
  }
  void directory_damaged(const Failure& why) override { lost = why.detail; }
  void forget(std::vector<JobNumber> jobs, std::function<void(bool)> then) override {
    most_at_once = std::max(most_at_once, jobs.size());
    engine_work.push_back([this, jobs = std::move(jobs), then = std::move(then)] {
      bool done = true;
      for (const JobNumber job : jobs) {
        const Row mark = Directory::mark_of(job);
        done = done && engine->forget(job, {mark.key, mark.value});
      }
      first_loop_.post([then, done] { then(done); });
    });
  }
  void struck_out(const Directory::NamedRun& entry, std::string_view how) override {
    struck.push_back(entry.job + "/" + entry.run + " " + std::string(how));
  }
  std::string not_ready() const override { return "the engine is closed"; }

  const bool shared_;
  const bool is_volatile_;
  FirstLoop first_loop_;
};

}  // namespace c10dd::core
