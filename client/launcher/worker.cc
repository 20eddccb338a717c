// SPDX-License-Identifier: Apache-2.0
#include "client/launcher/worker.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <utility>

namespace c10dd::run {
namespace {

using boost::asio::posix::stream_descriptor;

constexpr std::chrono::milliseconds kPartDelay{300};
constexpr std::size_t kReadBytes = 64 * 1024;
constexpr std::chrono::milliseconds kEndLook{20};  // between two looks for the end of a child
constexpr std::size_t kLastReads = 64;  // maximum reads in finish(); one is usually enough

int duplicate(const client::Descriptor& descriptor) {
  return fcntl(descriptor.get(), F_DUPFD_CLOEXEC, 0);
}

}  // namespace

Pump::Pump(boost::asio::io_context& loop, Console& console, std::uint32_t rank, int stream,
           client::Descriptor from, client::Descriptor file)
    : console_(console),
      rank_(rank),
      stream_(stream),
      part_(loop),
      from_(loop, duplicate(from)),
      file_(std::move(file)),
      lines_([this, rank, stream](std::string_view line) {
        last_.add(line);
        console_.line(stream, rank, line);
      }) {}

void Pump::start(std::shared_ptr<void> owner) {
  // Waits until the pipe can be read, but does not read. A pending async_read could have consumed
  // bytes that finish() must copy.
  from_.async_wait(stream_descriptor::wait_read,
                   [this, owner = std::move(owner)](const boost::system::error_code&) mutable {
                     if (!from_.is_open()) return;
                     const bool more = take();
                     console_.flush();
                     if (!more) return finish();
                     show_part_later(owner);
                     start(std::move(owner));
                   });
}

/// Prints the beginning of a line whose end does not come.
void Pump::show_part_later(std::weak_ptr<void> owner) {
  if (lines_.partial().empty() || std::exchange(part_waits_, true)) return;
  part_.expires_after(kPartDelay);
  part_.async_wait([this, owner = std::move(owner)](const boost::system::error_code&) {
    const auto self = owner.lock();
    if (!self) return;
    part_waits_ = false;
    if (!from_.is_open() || lines_.partial().empty()) return;
    console_.part(stream_, rank_, lines_.partial());
    console_.flush();
  });
}

/// Reads once and copies the bytes. Returns whether more bytes may come.
bool Pump::take() {
  char buffer[kReadBytes];
  const ssize_t size = read(from_.native_handle(), buffer, sizeof buffer);
  if (size < 0) return errno == EAGAIN || errno == EINTR;
  std::string_view rest(buffer, static_cast<std::size_t>(size));
  lines_.feed(rest);
  while (file_ && !rest.empty()) {
    const ssize_t n = write(file_.get(), rest.data(), rest.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {  // the training must go on, even if the disk is full
      console_.note("cannot write to a log file: " + client::error_text(errno) +
                    "; the rest of this output is not logged");
      file_ = client::Descriptor();
      break;
    }
    rest.remove_prefix(static_cast<std::size_t>(n));
  }
  return size > 0;
}

void Pump::finish() {
  if (!from_.is_open()) return;
  for (std::size_t reads = 0; reads < kLastReads; ++reads) {
    int waiting = 0;
    if (ioctl(from_.native_handle(), FIONREAD, &waiting) != 0 || waiting == 0) break;
    if (!take()) break;
  }
  lines_.finish();
  console_.flush();
  close();
}

void Pump::close() {
  boost::system::error_code ignored;
  part_.cancel();
  from_.close(ignored);
}

Worker::Worker(boost::asio::io_context& loop, Console& console, std::uint32_t rank, Child child,
               LogFiles files)
    : rank_(rank),
      child_(std::move(child)),
      process_(loop),
      look_(loop),
      out_(loop, console, rank, STDOUT_FILENO, std::move(child_.out), std::move(files.out)),
      error_(loop, console, rank, STDERR_FILENO, std::move(child_.error), std::move(files.error)) {
  if (child_.process) process_.assign(duplicate(child_.process));
}

/// Calls `then` when the process has ended, or was abandoned.
void Worker::await_end(const std::function<void()>& then) {
  if (process_.is_open()) {
    return process_.async_wait(
        stream_descriptor::wait_read,
        [self = shared_from_this(), then](const boost::system::error_code&) { then(); });
  }
  look_.expires_after(kEndLook);
  look_.async_wait([self = shared_from_this(), then](const boost::system::error_code&) {
    if (!self->running_ || has_ended(self->child_)) return then();
    self->await_end(then);
  });
}

void Worker::start(std::function<void()> about_to_reap, std::function<void()> ended) {
  out_.start(shared_from_this());
  error_.start(shared_from_this());
  await_end([self = shared_from_this(), about_to_reap = std::move(about_to_reap),
             ended = std::move(ended)] {
    if (!self->running_) return;
    about_to_reap();
    self->exit_ = reap(self->child_);
    self->running_ = false;
    self->process_.close();
    self->out_.finish();
    self->error_.finish();
    ended();
  });
}

void Worker::signal(int number) const {
  if (running_) ::kill(-child_.pid, number);
}

void Worker::abandon() {
  if (running_) {
    ::kill(-child_.pid, SIGKILL);
    reap(child_);
    running_ = false;
  }
  boost::system::error_code ignored;
  process_.close(ignored);
  look_.cancel();
  out_.close();
  error_.close();
}

}  // namespace c10dd::run
