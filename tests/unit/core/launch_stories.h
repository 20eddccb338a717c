// SPDX-License-Identifier: Apache-2.0
// Seeded stories of launches that use one job without naming a run: single, one after another,
// overlapping, over the zombies of others, and of clients that use the port as a store. Each story
// checks what PlainRuns and VolatileRuns promise together.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "daemon/core/directory/volatile_runs.h"
#include "daemon/core/torch/plain_runs.h"
#include "protocol/format.h"

namespace c10dd::core {

class LaunchStory {
 public:
  explicit LaunchStory(std::uint64_t seed) : random_(seed) {}

  /// Tells the story. Returns what is wrong, if anything is.
  std::optional<std::string> tell() {
    old_ = chance(30);
    switch (below(9)) {
      case 0:
        one_launch();
        break;
      case 1:
        one_after_another();
        break;
      case 2:
        over_zombies();
        break;
      case 3:
        overlapping();
        break;
      case 4:
        newcomers();
        break;
      case 5:
        store_clients();
        break;
      case 6:
        store_before_launch();
        break;
      case 7:
        storm();
        break;
      default:
        agents();
    }
    end_all();
    return wrong_;
  }

 private:
  using Connection = PlainRuns::Connection;
  using Kind = PlainRuns::First::Kind;

  struct Process {
    std::size_t launch = 0;
    std::uint32_t rank = 0;
    PlainRuns::Peer peer;
    std::vector<Connection> open = {};
    std::string run = {};  ///< of its newest join
    bool keyed = false;    ///< has set its rank's key
    bool failed = false;   ///< its connection was closed by the daemon
  };
  struct Launch {
    std::vector<std::size_t> processes;
    bool pids = true;  ///< the daemon knows the pids of its processes
  };

  // ---- chance

  std::uint64_t below(std::uint64_t limit) { return random_() % limit; }
  bool chance(std::uint64_t percent) { return below(100) < percent; }
  void time_passes() { now_ += std::chrono::milliseconds(hurry_ ? 1 : below(2000)); }
  void a_minute_passes() { now_ += PlainRuns::kYoung + std::chrono::seconds(below(600)); }
  std::vector<std::size_t> shuffled(std::vector<std::size_t> list) {
    std::shuffle(list.begin(), list.end(), random_);
    return list;
  }

  void expect(bool holds, const std::string& what) {
    if (!holds && !wrong_) wrong_ = what;
  }

  // ---- what processes do

  std::size_t launch(std::uint32_t world) {
    const std::size_t number = launches_.size();
    Launch& made = launches_.emplace_back();
    made.pids = chance(70);
    for (std::uint32_t rank = 0; rank < world; ++rank) {
      const std::uint64_t pid = made.pids ? ++pids_ : 0;
      made.processes.push_back(processes_.size());
      processes_.push_back({number, rank, {"10.0.0." + std::to_string(rank % 2), pid}});
    }
    return number;
  }

  std::string bind(Process& process, const PlainRuns::First& first) {
    time_passes();
    const Connection connection = ++connections_;
    memory_.tick(now_);
    if (!memory_.is_kept(kJob, runs_.resting())) runs_.retired(runs_.resting());
    const PlainRuns::Outcome out = runs_.bind(connection, process.peer, first, now_);
    expect(out.resumed || !ended_.contains(out.run) || first.kind == Kind::rendezvous,
           "a connection is bound to a run that has ended");
    open(out, process.peer.address);
    process.open.push_back(connection);
    members_[out.run].insert(connection);
    owners_[connection] = static_cast<std::size_t>(&process - processes_.data());
    for (const PlainRuns::Note& note : out.notes) splits_ += note.what == "launch_split" ? 1 : 0;
    return out.run;
  }

  void open(const PlainRuns::Outcome& out, const std::string& address) {
    if (out.resumed) {
      expect(memory_.resume(kJob, out.run, address).has_value(), "a run without keys is resumed");
      expect(!with_ranks_.contains(out.run), "the run of a launch that has ended is resumed");
    }
    expect(memory_.open(kJob, out.run, address).has_value(),
           "a run is refused although others have ended");
    ended_.erase(out.run);
  }

  void join(Process& process) {
    const std::string own = process.peer.pid != 0 && !process.open.empty() ? process.run : "";
    process.run = bind(process, {Kind::join, {}});
    expect(own.empty() || process.run == own, "a process that joins again leaves its run");
  }

  /// A further store of the process, which joins nothing.
  void clone(Process& process) {
    const std::string run = bind(process, {});
    expect(process.peer.pid == 0 || process.open.size() < 2 || run == process.run,
           "a further connection of a process is in another run");
  }

  void close(Process& process, std::size_t index) {
    const Connection connection = process.open[index];
    process.open.erase(process.open.begin() + static_cast<std::ptrdiff_t>(index));
    left(connection, runs_.closed(connection).ended);
  }
  void end(Process& process) {
    while (!process.open.empty()) close(process, below(process.open.size()));
  }

  /// Checks that a run ends with its last connection, and not before.
  void left(Connection connection, const std::vector<std::string>& ended) {
    owners_.erase(connection);
    for (auto it = members_.begin(); it != members_.end();) {
      it->second.erase(connection);
      const bool last = it->second.empty();
      const bool told = std::ranges::find(ended, it->first) != ended.end();
      expect(last == told, "a run ends before or after its last connection");
      if (last) {
        ended_.insert(it->first);
        memory_.end(kJob, it->first, now_);
      }
      it = last ? members_.erase(it) : std::next(it);
    }
  }

  /// Returns whether a process of the run has set its key and waits for the others of its launch.
  bool blocked(const std::string& run) const {
    return std::ranges::any_of(processes_, [&](const Process& process) {
      return process.run == run && process.keyed && !process.open.empty() && !complete(process);
    });
  }
  bool complete(const Process& of) const {
    return std::ranges::all_of(launches_[of.launch].processes, [&](std::size_t number) {
      return processes_[number].keyed && processes_[number].run == of.run;
    });
  }

  std::string rank_key(std::uint32_t rank) const {
    return old_ ? format("//worker/attempt_0/default_pg/0/0/{}", rank)
                : format("/default_pg/0//cpu//0/{}", rank);
  }

  /// Sets the key of the process's rank. Checks who is refused, and who is closed for it.
  PlainRuns::Outcome set_key(Process& process, const std::string& key) {
    time_passes();
    const std::string run = process.run;
    const bool waits = blocked(run);
    const bool young = now_ - began(run) < PlainRuns::kYoung;
    const auto holder = held_.find({run, key});
    const bool taken = holder != held_.end() && alive(holder->second) &&
                       owner(holder->second) != owner(process.open.front());
    const Connection connection = process.open.front();
    const PlainRuns::Outcome out = runs_.set_key(connection, {key}, waits, now_);
    expect(out.refused == taken, taken ? "two processes set the key of one rank"
                                       : "the key of a rank is refused although nobody has it");
    if (!out.refused) {
      held_[{run, key}] = connection;
      with_ranks_.insert(run);
      process.keyed = true;
      return out;
    }
    const std::set<Connection> closed(out.close.begin(), out.close.end());
    expect(closed.contains(connection), "the second process goes on");
    if (young || waits) {
      expect(closed == members_[run], "ranks may have talked to a stranger, and go on");
    } else {
      expect(closed.size() == 1, "a quiet run is closed because of a newcomer");
    }
    for (const Connection one : out.close) fail(one, out.ended);
    return out;
  }
  bool alive(Connection connection) const { return owners_.contains(connection); }
  std::size_t owner(Connection connection) const { return owners_.at(connection); }
  TimePoint began(const std::string& run) const {
    for (const PlainRuns::Report& report : runs_.reports()) {
      if (report.run == run) return report.began;
    }
    return {};
  }

  void fail(Connection connection, const std::vector<std::string>& ended) {
    Process& process = processes_[owner(connection)];
    process.failed = true;
    std::erase(process.open, connection);
    const bool last = std::ranges::all_of(members_, [&](const auto& run) {
      return !run.second.contains(connection) || run.second.size() == 1;
    });
    left(connection, last ? ended : std::vector<std::string>{});
  }

  // ---- the stories

  std::set<std::string> runs_of(std::size_t number) const {
    std::set<std::string> runs;
    for (const std::size_t process : launches_[number].processes) {
      if (!processes_[process].run.empty()) runs.insert(processes_[process].run);
    }
    return runs;
  }
  bool share(std::size_t a, std::size_t b) const {
    const std::set<std::string> first = runs_of(a);
    return std::ranges::any_of(runs_of(b),
                               [&](const std::string& run) { return first.contains(run); });
  }
  std::uint32_t world() { return static_cast<std::uint32_t>(2 + below(4)); }

  void join_all(std::size_t number) {
    for (const std::size_t process : shuffled(launches_[number].processes)) {
      join(processes_[process]);
      if (chance(20)) clone(processes_[process]);
      if (chance(10)) join(processes_[process]);
    }
    expect(runs_of(number).size() == 1, "a launch of which nobody has ended is in two runs");
  }
  void key_all(std::size_t number) {
    for (const std::size_t process : shuffled(launches_[number].processes)) {
      if (processes_[process].open.empty()) continue;
      set_key(processes_[process], rank_key(processes_[process].rank));
    }
  }
  void expect_trains(std::size_t number) {
    for (const std::size_t process : launches_[number].processes) {
      const Process& one = processes_[process];
      expect(one.keyed && !one.failed && !one.open.empty(), "a launch on its own does not train");
    }
  }
  void end_all() {
    for (Process& process : processes_) end(process);
    expect(runs_.reports().empty(), "a run is left without connections");
    memory_.tick(now_ + limits::kRunGrace);
    expect(!memory_.next_deadline(), "a run that has ended is kept after its grace");
  }

  void one_launch() {
    const std::size_t only = launch(world());
    join_all(only);
    key_all(only);
    expect_trains(only);
    expect(splits_ == 0, "a launch on its own is called split");
  }

  /// Each launch ends, or at least one of its ranks does, before the next begins.
  void one_after_another() {
    for (std::uint64_t left = 2 + below(4); left > 0; --left) {
      const std::size_t next = launch(world());
      const std::set<std::string> taken = with_ranks_;
      join_all(next);
      if (chance(80)) key_all(next);
      for (const std::string& run : runs_of(next)) {
        expect(!taken.contains(run), "a launch shares the run of a launch before it");
      }
      const auto order = shuffled(launches_[next].processes);
      const std::size_t ends = 1 + below(order.size());
      for (std::size_t i = 0; i < ends; ++i) end(processes_[order[i]]);
      if (chance(30)) a_minute_passes();
      if (chance(50)) end_some_zombie();
    }
  }
  void end_some_zombie() { end(processes_[below(processes_.size())]); }

  /// All sockets of the first launch look alive. The second has an error at its first rank's key,
  /// and the third has a run of its own.
  void over_zombies() {
    const std::uint32_t size = world();
    const std::size_t first = launch(size);
    join_all(first);
    key_all(first);
    if (chance(50)) a_minute_passes();
    const std::size_t second = launch(size);
    join_all(second);
    expect(share(first, second), "a launch finds an end although there was none");
    const auto order = shuffled(launches_[second].processes);
    expect(set_key(processes_[order[0]], rank_key(processes_[order[0]].rank)).refused,
           "a launch goes on among the keys of another");
    expect(processes_[order[0]].failed, "a launch has no error at its first rank's key");
    for (const std::size_t process : order) end(processes_[process]);
    const std::size_t third = launch(size);
    join_all(third);
    key_all(third);
    expect(!share(first, third) && !share(second, third), "the third launch has no run of its own");
    expect_trains(third);
  }

  /// Launches whose steps mix. Whoever starts a launch ends it when one of its ranks has failed.
  void overlapping() {
    std::vector<std::size_t> steps;
    for (std::uint64_t number = 2 + below(2); number > 0; --number) {
      for (const std::size_t process : launches_[launch(world())].processes) {
        steps.insert(steps.end(), 2, process);
      }
    }
    for (const std::size_t process : shuffled(steps)) {
      Process& one = processes_[process];
      if (launch_failed(one.launch)) {
        end(one);
      } else if (one.open.empty()) {
        join(one);
      } else {
        set_key(one, rank_key(one.rank));
      }
      if (chance(5)) a_minute_passes();
      if (chance(30)) end_failed_launches();
    }
    end_failed_launches();
    std::map<std::string, std::set<std::size_t>> holders;
    for (const Process& process : processes_) {
      if (process.keyed && !process.open.empty()) holders[process.run].insert(process.launch);
    }
    for (const auto& [run, launches] : holders) {
      expect(launches.size() == 1, "two launches hold ranks of one group");
    }
  }
  bool launch_failed(std::size_t number) const {
    return std::ranges::any_of(launches_[number].processes,
                               [&](std::size_t process) { return processes_[process].failed; });
  }
  void end_failed_launches() {
    for (Process& process : processes_) {
      if (launch_failed(process.launch)) end(process);
    }
  }

  /// A quiet run loses nobody to newcomers, and its processes find it again.
  void newcomers() {
    const std::size_t quiet = launch(world());
    join_all(quiet);
    key_all(quiet);
    a_minute_passes();
    const std::size_t late = launch(world());
    for (const std::size_t process : shuffled(launches_[late].processes)) {
      Process& one = processes_[process];
      join(one);
      if (share(quiet, late) && one.rank < launches_[quiet].processes.size()) {
        set_key(one, rank_key(one.rank));
      }
      if (chance(50)) end(one);
      Process& member = processes_[launches_[quiet].processes[below(2)]];
      if (chance(50)) clone(member);
      if (chance(50) && member.peer.pid != 0) join(member);
    }
    expect_trains(quiet);
  }

  /// Agents of torchrun: one that has ended is replaced in the same run.
  void agents() {
    const std::size_t first = launch(world());
    const PlainRuns::First rendezvous{Kind::rendezvous, "rdzv-" + std::to_string(below(3))};
    const auto role = [](std::uint32_t rank) {
      return format("/torch.rendezvous.id.0/torchelastic/role_info/{}", rank);
    };
    for (const std::size_t number : launches_[first].processes) {
      Process& agent = processes_[number];
      agent.run = bind(agent, rendezvous);
      expect(agent.run == rendezvous.run, "an agent is not in the run of its rendezvous");
      set_key(agent, role(agent.rank));
    }
    Process& ended = processes_[launches_[first].processes.front()];
    if (chance(50)) a_minute_passes();
    const bool dead = chance(70);
    if (dead) end(ended);
    const std::size_t second = launch(1);
    Process& replacement = processes_[launches_[second].processes.front()];
    replacement.run = bind(replacement, rendezvous);
    expect(replacement.run == rendezvous.run, "an agent is not in the run of its rendezvous");
    expect(set_key(replacement, role(0)).refused != dead, "an agent that has ended is in the way");
  }

  bool is_open(std::size_t number) const {
    return std::ranges::any_of(launches_[number].processes, [&](std::size_t process) {
      return !processes_[process].open.empty();
    });
  }

  /// Clients of a store, most of which end before the next one comes. Returns the run of the last.
  std::string store_clients() {
    const std::size_t clients = launch(2 + world());
    std::string run;
    for (const std::size_t number : shuffled(launches_[clients].processes)) {
      Process& client = processes_[number];
      if (!is_open(clients) && chance(10)) {
        a_minute_passes();
        run.clear();
      }
      for (std::uint64_t times = 1 + below(3); times > 0; --times) {
        chance(70) ? join(client) : clone(client);
        client.run = runs_.run_of(client.open.back());
        expect(run.empty() || client.run == run,
               "a client does not see the keys before it: " + client.run + ", not " + run);
        run = client.run;
        if (times > 1 || chance(70)) end(client);
      }
    }
    return run;
  }

  /// A launch begins where clients of a store have ended. Its ranks do not wait for each other.
  void store_before_launch() {
    const std::string store = store_clients();
    const std::size_t first = launch(world());
    for (const std::size_t number : shuffled(launches_[first].processes)) {
      join(processes_[number]);
      expect(processes_[number].run == store, "a launch and the store before it are two runs");
      set_key(processes_[number], rank_key(processes_[number].rank));
    }
    expect_trains(first);
    expect(splits_ == 0, "a launch after a store is called split");
    end(processes_[launches_[first].processes[below(2)]]);
    const std::size_t second = launch(world());
    join_all(second);
    expect(!share(first, second), "a launch shares the run of a launch before it");
  }

  /// Far more runs begin and end than there are places, in less than a grace. A launch goes on.
  void storm() {
    const std::size_t only = launch(world());
    join_all(only);
    key_all(only);
    hurry_ = true;
    const std::size_t many = launch(static_cast<std::uint32_t>(3 * kRuns));
    for (const std::size_t number : launches_[many].processes) {
      Process& one = processes_[number];
      bind(one, {Kind::rendezvous, "rdzv-storm" + std::to_string(number)});
      end(one);
    }
    const std::size_t late = launch(1);
    join_all(late);
    expect_trains(only);
  }

  static constexpr const char* kJob = "torch";
  static constexpr std::size_t kRuns = 12;

  std::mt19937_64 random_;
  bool old_ = false;    // the ranks use PyTorch 1.13
  bool hurry_ = false;  // all happens within a grace
  TimePoint now_;
  PlainRuns runs_;
  VolatileRuns memory_{{.runs = kRuns}};
  std::set<std::string> with_ranks_;  // runs in which a rank's key was set
  std::vector<Launch> launches_;
  std::vector<Process> processes_;
  std::uint64_t pids_ = 0;
  Connection connections_ = 0;
  std::map<std::string, std::set<Connection>> members_;  // live connections of each run
  std::map<Connection, std::size_t> owners_;             // processes of live connections
  std::set<std::string> ended_;
  std::map<std::pair<std::string, std::string>, Connection> held_;  // by run and key
  std::size_t splits_ = 0;
  std::optional<std::string> wrong_;
};

}  // namespace c10dd::core
