// SPDX-License-Identifier: Apache-2.0
// What tests of processes, pipes and standard streams share.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "client/internal/socket.h"

namespace c10dd::test {

/// How many descriptors this process has open.
inline std::ptrdiff_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return std::distance(begin(all), end(all));
}

/// Lets this process open only so many more descriptors, until the object is destroyed.
class FewDescriptors {
 public:
  explicit FewDescriptors(rlim_t room) {
    int highest = 0;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
      highest = std::max(highest, std::stoi(entry.path().filename().string()));
    }
    do {  // fills the numbers that are free below the highest
      fillers_.emplace_back(::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0));
    } while (fillers_.back().get() < highest);
    ::getrlimit(RLIMIT_NOFILE, &before_);
    rlimit few = before_;
    few.rlim_cur = static_cast<rlim_t>(fillers_.back().get()) + 1 + room;
    ::setrlimit(RLIMIT_NOFILE, &few);
  }
  ~FewDescriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  FewDescriptors(const FewDescriptors&) = delete;

 private:
  rlimit before_{};
  std::vector<client::Descriptor> fillers_;
};

/// Lets this process have so many descriptors open, until the object is destroyed. False if the
/// system does not allow as many.
class ManyDescriptors {
 public:
  explicit ManyDescriptors(rlim_t most) {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    rlimit many = before_;
    many.rlim_cur = std::max(before_.rlim_cur, most);
    set_ = ::setrlimit(RLIMIT_NOFILE, &many) == 0;
  }
  ~ManyDescriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  ManyDescriptors(const ManyDescriptors&) = delete;
  explicit operator bool() const { return set_; }

 private:
  rlimit before_{};
  bool set_ = false;
};

/// A pipe. The test reads its end with a limit of 60 s, so that a text that does not come fails.
class Pipe {
 public:
  Pipe() {
    int ends[2];
    EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    out_ = client::Descriptor(ends[0]);
    in_ = client::Descriptor(ends[1]);
  }

  int in() const { return in_.get(); }
  int out() const { return out_.get(); }
  void close_in() { in_ = client::Descriptor(); }
  void close_out() { out_ = client::Descriptor(); }
  void write(std::string_view text) const {
    EXPECT_EQ(::write(in(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
  /// Writes until nothing more fits.
  void fill() const {
    ::fcntl(in(), F_SETFL, O_NONBLOCK);
    const std::string block(4096, '#');
    while (::write(in(), block.data(), block.size()) > 0) ++blocks_;
    ::fcntl(in(), F_SETFL, 0);
  }
  /// Reads what fill() has written.
  void unfill() const { read(blocks_ * 4096); }

  /// Reads so many bytes, or fewer at the end.
  std::string read(std::size_t bytes) const {
    std::string text;
    while (text.size() < bytes && more(text, bytes - text.size())) {
    }
    return text;
  }
  /// Reads what is there now.
  std::string available() const {
    std::string text;
    pollfd ready{out(), POLLIN, 0};
    while (::poll(&ready, 1, 0) > 0 && more(text, 65536)) {
    }
    return text;
  }
  /// Reads until the text ends with `part`.
  std::string until(std::string_view part) const {
    std::string text;
    while (!text.ends_with(part) && more(text, 1)) {
    }
    return text;
  }
  /// Closes the writing end, and reads to the end.
  std::string rest() {
    close_in();
    std::string text;
    while (more(text, 65536)) {
    }
    return text;
  }
  /// Returns whether nobody has the writing end any more. Drops what comes before the end.
  bool has_ended() {
    close_in();
    std::string text;
    while (more(text, 65536)) {
    }
    pollfd end{out(), POLLIN, 0};
    return ::poll(&end, 1, 0) == 1 && (end.revents & POLLHUP) != 0;
  }

 private:
  bool more(std::string& text, std::size_t most) const {
    pollfd ready{out(), POLLIN, 0};
    char bytes[65536];
    if (::poll(&ready, 1, 60'000) <= 0) return false;
    const ssize_t n = ::read(out(), bytes, std::min(most, sizeof bytes));
    if (n > 0) text.append(bytes, static_cast<std::size_t>(n));
    return n > 0;
  }

  client::Descriptor out_;
  client::Descriptor in_;
  mutable std::size_t blocks_ = 0;
};

/// Puts another descriptor in place of one of the standard streams, until it is destroyed. What
/// gtest prints meanwhile goes there, too.
class ReplacedStream {
 public:
  ReplacedStream(int stream, int with) : stream_(stream) {
    std::fflush(stdout);
    before_ = client::Descriptor(::fcntl(stream, F_DUPFD_CLOEXEC, 3));
    ::dup2(with, stream);
  }
  ~ReplacedStream() {
    std::fflush(stdout);
    ::dup2(before_.get(), stream_);
  }
  ReplacedStream(const ReplacedStream&) = delete;

 private:
  int stream_;
  client::Descriptor before_;
};

/// A signal with this disposition until the object is destroyed.
class SignalDisposition {
 public:
  SignalDisposition(int number, void (*handler)(int))
      : number_(number), before_(::signal(number, handler)) {}
  ~SignalDisposition() { ::signal(number_, before_); }
  SignalDisposition(const SignalDisposition&) = delete;

 private:
  int number_;
  void (*before_)(int);
};

/// Runs a function in a forked child, which ends with what it returns. Returns the wait status.
template <class Function>
int status_of_child(Function function) {
  std::fflush(stdout);
  const pid_t child = ::fork();
  if (child == 0) ::_exit(function());
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return status;
}

/// Returns whether the function returns true in a forked child.
template <class Function>
bool holds_in_child(Function function) {
  const int status = status_of_child([&] { return function() ? 0 : 1; });
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace c10dd::test
