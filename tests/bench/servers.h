// SPDX-License-Identifier: Apache-2.0
// The servers that a scenario starts for itself: each on 127.0.0.1 and a free port, state in a
// temporary directory, ended by its pid when the scenario is over and by the kernel when the
// program dies.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/bench/conversation.h"
#include "tests/bench/line.h"
#include "tests/bench/security.h"
#include "tests/unit/temporary_directory.h"

namespace c10dd::bench {

/// A child process. Its end is SIGTERM, after 10 s SIGKILL.
class Child {
 public:
  /// Forks; the child calls `body`, which does not return.
  explicit Child(const std::function<void()>& body);
  Child(Child&& other) noexcept : pid_(std::exchange(other.pid_, -1)) {}
  ~Child();

  /// SIGKILL; returns when it is dead.
  void kill();

  pid_t process() const { return pid_; }

  /// Throws when the child has ended.
  void must_live(const std::string& name) const;

 private:
  pid_t pid_;
};

/// In the child of a fork: becomes this program, or ends.
[[noreturn]] void become(const std::vector<std::string>& command);

/// Returns the first line that a server prints to this pipe. Throws after 20 s.
std::string first_line(const std::string& server, const Descriptor& output);

/// Keeps all cores from halting: a process for each that spins when there is nothing else to run.
std::vector<Child> keep_awake();

/// From now on the servers that are started sync as on a disk that takes so much longer. Throws
/// when the module for it is not where this program expects it. Not etcd: it does not sync by way
/// of the C library.
void delay_syncs(std::chrono::microseconds delay);
/// From now on the servers that are started read files as from a disk of this speed. Throws as
/// delay_syncs() does.
void slow_reads_down(double bytes_per_second);

/// While this object lives, each server that is started here runs as the argument of this command.
class ServersUnder {
 public:
  explicit ServersUnder(std::vector<std::string> command);
  ~ServersUnder();
  ServersUnder(const ServersUnder&) = delete;
};

/// Answers every request_bytes with `reply`, on epoll and nothing else.
class EchoServer {
 public:
  explicit EchoServer(const NativeBytes& bytes);
  Address address() const { return {"127.0.0.1", port_}; }
  pid_t process() const { return child_.process(); }

 private:
  EchoServer(Listening listening, const NativeBytes& bytes);

  std::uint16_t port_;
  Child child_;
};

/// The `c10dd` next to this program. `DIR` in the engine's URL becomes a temporary directory. With
/// `security`, which must live as long, it speaks TLS.
class DaemonServer {
 public:
  DaemonServer(const std::string& engine, const std::string& durability,
               const Security* security = nullptr, const std::string& listen = "127.0.0.1:0");

  /// SIGKILL; returns when it is dead. start() then starts it on its state and on another port.
  void kill() { child_->kill(); }
  void start();

  Address address() const { return {"127.0.0.1", port_, tls_}; }
  pid_t process() const { return child_->process(); }

 private:
  TemporaryDirectory directory_;
  std::vector<std::string> command_;
  std::shared_ptr<client::Tls> tls_;
  std::uint16_t port_ = 0;
  std::unique_ptr<Child> child_;
};

/// A redis-server. `appendfsync` is the option of its append-only file; empty: without that file.
/// With `security`, which must live as long, it speaks only TLS.
class RedisServer {
 public:
  explicit RedisServer(const std::string& appendfsync, const Security* security = nullptr);
  Address address() const { return {"127.0.0.1", port_, tls_}; }
  std::string url() const { return "redis://127.0.0.1:" + std::to_string(port_); }
  pid_t process() const { return child_->process(); }

 private:
  TemporaryDirectory directory_;
  std::shared_ptr<client::Tls> tls_;
  std::uint16_t port_ = 0;
  std::unique_ptr<Child> child_;
};

/// An etcd of one member, which syncs its log before it answers. `options` are added to its own.
class EtcdServer {
 public:
  explicit EtcdServer(const std::vector<std::string>& options = {});
  Address address() const { return {"127.0.0.1", port_}; }
  pid_t process() const { return child_->process(); }

 private:
  TemporaryDirectory directory_;
  std::uint16_t port_ = 0;
  std::unique_ptr<Child> child_;
};

/// The processor time that the process has taken so far; 0 without one.
double cpu_seconds(pid_t process);

/// What the kernel says of the process in /proc/PID/status under this name, in bytes.
std::uint64_t memory_of(pid_t process, const std::string& name = "VmRSS");

}  // namespace c10dd::bench
