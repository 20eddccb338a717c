// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/servers.h"

#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <thread>

#include "tests/bench/echo_server.h"

namespace c10dd::bench {
namespace {

constexpr std::chrono::seconds kStartDeadline{20};
constexpr std::chrono::seconds kStopDeadline{10};
constexpr std::chrono::milliseconds kPoll{5};

std::vector<std::string>& command_before() {
  static std::vector<std::string> words;
  return words;
}

bool passed(std::chrono::steady_clock::time_point deadline) {
  return std::chrono::steady_clock::now() >= deadline;
}

/// Whether a server says `answer` to `question`.
bool replies(const Address& server, std::string_view question, std::string_view reply) {
  try {
    Line line(server);
    line.send(question);
    line.receive(1, [&](std::string_view in) {
      return in.find(reply) == std::string_view::npos ? 0 : in.size();
    });
    return true;
  } catch (const std::runtime_error&) {
    return false;
  }
}

void await(const Child& child, const std::string& name, const Address& server,
           std::string_view question, std::string_view reply) {
  const auto deadline = std::chrono::steady_clock::now() + kStartDeadline;
  while (!replies(server, question, reply)) {
    throw_if_interrupted();
    child.must_live(name);
    if (passed(deadline)) throw std::runtime_error(name + " did not start");
    std::this_thread::sleep_for(kPoll);
  }
}

}  // namespace

void become(const std::vector<std::string>& command) {
  std::vector<std::string> whole = command_before();
  whole.insert(whole.end(), command.begin(), command.end());
  std::vector<char*> words;
  words.reserve(whole.size() + 1);
  for (const std::string& word : whole) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  ::execvp(words[0], words.data());
  std::perror(words[0]);
  ::_exit(127);
}

std::string first_line(const std::string& server, const Descriptor& output) {
  const auto deadline = std::chrono::steady_clock::now() + kStartDeadline;
  std::string line;
  while (!line.ends_with('\n')) {
    throw_if_interrupted();
    if (passed(deadline)) throw std::runtime_error(server + " did not start");
    pollfd ready{output.get(), POLLIN, 0};
    if (::poll(&ready, 1, 100) <= 0) continue;
    char next = 0;
    if (::read(output.get(), &next, 1) != 1) throw std::runtime_error(server + " did not start");
    line += next;
  }
  line.pop_back();
  return line;
}

Child::Child(const std::function<void()>& body) {
  const pid_t parent = ::getpid();
  pid_ = ::fork();
  if (pid_ < 0) fail_with_errno("fork");
  if (pid_ > 0) return;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);
  ::setpgid(0, 0);  // an interrupt from the terminal is the parent's
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
  body();
  ::_exit(1);
}

Child::~Child() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGTERM);
  const auto deadline = std::chrono::steady_clock::now() + kStopDeadline;
  while (::waitpid(pid_, nullptr, WNOHANG) == 0) {
    if (passed(deadline)) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
      return;
    }
    std::this_thread::sleep_for(kPoll);
  }
}

void Child::kill() {
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

void Child::must_live(const std::string& name) const {
  siginfo_t info{};
  const bool ended =
      ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
      info.si_pid == pid_;
  if (ended)
    throw std::runtime_error(name + " ended with status " + std::to_string(info.si_status));
}

std::vector<Child> keep_awake() {
  std::vector<Child> spinners;
  cpu_set_t cores;
  CPU_ZERO(&cores);
  if (::sched_getaffinity(0, sizeof cores, &cores) != 0) fail_with_errno("sched_getaffinity");
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &cores)) continue;
    spinners.emplace_back([core] {
      cpu_set_t one;
      CPU_ZERO(&one);
      CPU_SET(core, &one);
      const sched_param idle{};
      if (::sched_setaffinity(0, sizeof one, &one) != 0) return;
      if (::sched_setscheduler(0, SCHED_IDLE, &idle) != 0) return;
      for (volatile bool forever = true; forever;) {
      }
    });
  }
  return spinners;
}

namespace {

/// Preloads the module that slows a disk down into the servers that are started from now on.
void preload(const std::string& option) {
  const auto program = std::filesystem::read_symlink("/proc/self/exe");
  const auto module =
      (program.parent_path() / "../libexec/c10dd/libc10dd_slow_sync.so").lexically_normal();
  if (!std::filesystem::exists(module)) {
    throw std::runtime_error(option + " needs " + module.string() + ", which does not exist");
  }
  ::setenv("LD_PRELOAD", module.c_str(), 1);
}

}  // namespace

void delay_syncs(std::chrono::microseconds delay) {
  preload("--sync-delay");
  ::setenv("SYNC_DELAY_US", std::to_string(delay.count()).c_str(), 1);
}

void slow_reads_down(double bytes_per_second) {
  preload("--read-rate");
  ::setenv("READ_BYTES_PER_S", std::to_string(bytes_per_second).c_str(), 1);
}

ServersUnder::ServersUnder(std::vector<std::string> command) {
  command_before() = std::move(command);
}

ServersUnder::~ServersUnder() { command_before().clear(); }

EchoServer::EchoServer(const NativeBytes& bytes) : EchoServer(listen_anywhere(), bytes) {}

EchoServer::EchoServer(Listening listening, const NativeBytes& bytes)
    : port_(listening.port),
      child_([&] { serve_echo(listening.descriptor, bytes.request, bytes.reply); }) {}

DaemonServer::DaemonServer(const std::string& engine, const std::string& durability,
                           const Security* security, const std::string& listen) {
  const auto self = std::filesystem::read_symlink("/proc/self/exe");
  std::string url = engine;
  if (const std::size_t at = url.find("DIR"); at != std::string::npos) {
    url.replace(at, 3, directory_.path() + "/state");
  }
  command_ = {self.parent_path() / "c10dd",
              "--listen",
              listen,
              "--engine",
              url,
              "--durability",
              durability,
              "--log-level",
              "warn"};
  if (!listen.starts_with("127.")) command_.push_back("--allow-insecure-listen");
  if (security != nullptr) {
    const std::vector<std::string> further = security->daemon_options();
    command_.insert(command_.end(), further.begin(), further.end());
    tls_ = security->to_daemon();
  }
  start();
}

void DaemonServer::start() {
  std::array<int, 2> ends{};
  if (::pipe(ends.data()) != 0) fail_with_errno("pipe");
  const Descriptor read_end(ends[0]);
  Descriptor write_end(ends[1]);
  child_ = std::make_unique<Child>([&] {
    ::dup2(write_end.get(), STDOUT_FILENO);
    become(command_);
  });
  write_end = Descriptor();
  const std::string line = first_line("c10dd", read_end);
  port_ = static_cast<std::uint16_t>(std::stoi(line.substr(line.rfind(':') + 1)));
}

RedisServer::RedisServer(const std::string& appendfsync, const Security* security) {
  port_ = listen_anywhere().port;
  std::vector<std::string> command = {"redis-server",
                                      "--bind",
                                      "127.0.0.1",
                                      "--dir",
                                      directory_.path(),
                                      "--logfile",
                                      "redis.log",
                                      "--save",
                                      "",
                                      "--appendonly",
                                      appendfsync.empty() ? "no" : "yes",
                                      "--appendfsync",
                                      appendfsync.empty() ? "no" : appendfsync};
  const std::vector<std::string> listening =
      security != nullptr ? security->redis_options(port_)
                          : std::vector<std::string>{"--port", std::to_string(port_)};
  command.insert(command.end(), listening.begin(), listening.end());
  if (security != nullptr) tls_ = security->to_redis();
  child_ = std::make_unique<Child>([&] { become(command); });
  await(*child_, "redis-server", address(), "PING\r\n", "+PONG");
}

EtcdServer::EtcdServer(const std::vector<std::string>& options) {
  const auto url = [](std::uint16_t port) { return "http://127.0.0.1:" + std::to_string(port); };
  port_ = listen_anywhere().port;
  const std::string clients = url(port_);
  const std::string peers = url(listen_anywhere().port);
  std::vector<std::string> command = {"etcd",
                                      "--name",
                                      "bench",
                                      "--data-dir",
                                      directory_.path() + "/etcd",
                                      "--listen-client-urls",
                                      clients,
                                      "--advertise-client-urls",
                                      clients,
                                      "--listen-peer-urls",
                                      peers,
                                      "--initial-advertise-peer-urls",
                                      peers,
                                      "--initial-cluster",
                                      "bench=" + peers,
                                      "--logger",
                                      "zap",
                                      "--log-level",
                                      "fatal",
                                      "--quota-backend-bytes",
                                      "8589934592"};
  command.insert(command.end(), options.begin(), options.end());
  child_ = std::make_unique<Child>([&] { become(command); });
  await(*child_, "etcd", address(), "GET /health HTTP/1.0\r\n\r\n", "\"health\":\"true\"");
}

double cpu_seconds(pid_t process) {
  clockid_t clock{};
  timespec time{};
  if (process == 0 || ::clock_getcpuclockid(process, &clock) != 0) return 0;
  ::clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

std::uint64_t memory_of(pid_t process, const std::string& name) {
  std::ifstream status("/proc/" + std::to_string(process) + "/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(name + ":")) return std::stoull(line.substr(name.size() + 1)) * 1024;
  }
  throw std::runtime_error("cannot read " + name + " of process " + std::to_string(process));
}

}  // namespace c10dd::bench
