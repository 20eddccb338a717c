// SPDX-License-Identifier: Apache-2.0
// A worker takes every jobs-th seed, and reports over a pipe which seed it begins and its result.
#include "tests/sim/runner.h"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <vector>

namespace c10dd::sim {
namespace {

constexpr std::uint64_t kTwice = 50;

struct Message {
  enum class Kind : std::uint64_t { begun, ended };
  Kind kind = Kind::begun;
  std::uint64_t seed = 0;
  std::uint64_t hash = 0;
  std::uint64_t events = 0;
  std::uint64_t calls = 0;
  std::uint64_t undecided = 0;
  std::int64_t simulated_ns = 0;
  std::array<std::uint64_t, kFaults> faults{};
  std::uint64_t oracle_bytes = 0;  // what follows: oracle, text, last events by lines
  std::uint64_t text_bytes = 0;
  std::uint64_t events_bytes = 0;
};

bool transfer(int fd, void* data, std::size_t size, bool out) {
  auto* bytes = static_cast<char*>(data);
  while (size > 0) {
    const ssize_t n = out ? write(fd, bytes, size) : read(fd, bytes, size);
    if (n <= 0) return false;
    bytes += n;
    size -= static_cast<std::size_t>(n);
  }
  return true;
}

void send(int fd, const Report& report) {
  Message m;
  m.kind = Message::Kind::ended;
  m.seed = report.seed;
  m.hash = report.hash;
  m.events = report.events;
  m.calls = report.calls;
  m.undecided = report.undecided;
  m.simulated_ns = report.simulated.count();
  m.faults = report.faults;
  std::string oracle;
  std::string text;
  std::string events;
  if (report.violation) {
    oracle = report.violation->oracle;
    text = report.violation->text;
    for (const std::string& line : report.last_events) events += line + '\n';
  }
  m.oracle_bytes = oracle.size();
  m.text_bytes = text.size();
  m.events_bytes = events.size();
  transfer(fd, &m, sizeof m, true);
  for (std::string* part : {&oracle, &text, &events})
    transfer(fd, part->data(), part->size(), true);
}

bool receive(int fd, Message& m, Report& report) {
  if (!transfer(fd, &m, sizeof m, false)) return false;
  report = {};
  report.seed = m.seed;
  report.hash = m.hash;
  report.events = m.events;
  report.calls = m.calls;
  report.undecided = m.undecided;
  report.simulated = Duration(m.simulated_ns);
  report.faults = m.faults;
  std::string oracle(m.oracle_bytes, '\0');
  std::string text(m.text_bytes, '\0');
  std::string events(m.events_bytes, '\0');
  for (std::string* part : {&oracle, &text, &events}) {
    if (!transfer(fd, part->data(), part->size(), false)) return false;
  }
  if (!oracle.empty()) {
    report.violation = Violation{oracle, text};
    report.last_events.push_back(events);
  }
  return true;
}

struct Worker {
  pid_t pid = 0;
  int fd = -1;
  std::uint64_t next = 0;   // the first seed that it has not finished
  std::uint64_t begun = 0;  // the seed that it runs; 0: none
};

void start(Worker& worker, const Range& range) {
  int ends[2];
  C10DD_ASSERT(pipe(ends) == 0);
  worker.begun = 0;
  worker.pid = fork();
  C10DD_ASSERT(worker.pid >= 0);
  if (worker.pid == 0) {
    close(ends[0]);
    plant(range.plant);
    for (std::uint64_t seed = worker.next; seed < range.from + range.count; seed += range.jobs) {
      Message begun;
      begun.seed = seed;
      if (!transfer(ends[1], &begun, sizeof begun, true)) break;
      send(ends[1], run_seed(seed));
    }
    _exit(0);
  }
  close(ends[1]);
  worker.fd = ends[0];
}

void stop(Worker& worker, bool kill_it) {
  if (kill_it) ::kill(worker.pid, SIGKILL);
  close(worker.fd);
  waitpid(worker.pid, nullptr, 0);
  worker.fd = -1;
}

}  // namespace

Report run_seed(std::uint64_t seed) {
  Report report = Simulation(seed).run();
  if (seed % kTwice == 0 && Simulation(seed).run().hash != report.hash && !report.violation) {
    report.violation = Violation{"determinism", "two runs of this seed differ"};
  }
  return report;
}

void run_seeds(const Range& range, const std::function<bool(const Report&)>& on_report) {
  std::signal(SIGPIPE, SIG_IGN);
  std::vector<Worker> workers(range.jobs);
  for (unsigned i = 0; i < range.jobs; ++i) {
    workers[i].next = range.from + i;
    start(workers[i], range);
  }
  bool enough = false;
  while (!enough) {
    std::vector<pollfd> polled;
    for (const Worker& worker : workers) polled.push_back({worker.fd, POLLIN, 0});
    if (std::ranges::all_of(workers, [](const Worker& w) { return w.fd < 0; })) return;
    poll(polled.data(), polled.size(), -1);
    for (std::size_t i = 0; i < workers.size() && !enough; ++i) {
      Worker& worker = workers[i];
      if (worker.fd < 0 || polled[i].revents == 0) continue;
      Message message;
      Report report;
      if (receive(worker.fd, message, report)) {
        worker.begun = message.kind == Message::Kind::begun ? message.seed : 0;
        if (worker.begun != 0) continue;
        worker.next = message.seed + range.jobs;
        enough = !on_report(report);
        continue;
      }
      stop(worker, false);
      if (worker.begun == 0) continue;  // it has finished all its seeds
      report = {};
      report.seed = worker.begun;
      report.violation = Violation{"assertion", "the process died; see above"};
      worker.next = worker.begun + range.jobs;
      enough = !on_report(report);
      if (!enough && worker.next < range.from + range.count) start(worker, range);
    }
  }
  for (Worker& worker : workers) {
    if (worker.fd >= 0) stop(worker, true);
  }
}

}  // namespace c10dd::sim
