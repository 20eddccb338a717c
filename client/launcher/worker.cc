// SPDX-License-Identifier: Apache-2.0
#include "client/launcher/worker.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

namespace c10dd::run {
namespace {

using boost::asio::posix::stream_descriptor;

constexpr std::size_t kReadBytes = 64 * 1024;
constexpr std::size_t kLastReads = 64;  // maximum reads in finish(); one is usually enough

int duplicate(const client::Descriptor& descriptor) {
  return fcntl(descriptor.get(), F_DUPFD_CLOEXEC, 0);
}

}  // namespace

Pump::Pump(boost::asio::io_context& loop, Console& console, std::uint32_t rank, int stream,
           client::Descriptor from, client::Descriptor file)
    : console_(console),
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
                     if (more) return start(std::move(owner));
                     finish();
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
      console_.note("log file: " + client::error_text(errno) + "; nothing more is written to it");
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
  from_.close(ignored);
}

Worker::Worker(boost::asio::io_context& loop, Console& console, std::uint32_t rank, Child child,
               LogFiles files)
    : rank_(rank),
      child_(std::move(child)),
      process_(loop, duplicate(child_.process)),
      out_(loop, console, rank, STDOUT_FILENO, std::move(child_.out), std::move(files.out)),
      error_(loop, console, rank, STDERR_FILENO, std::move(child_.error), std::move(files.error)) {}

void Worker::start(std::function<void()> about_to_reap, std::function<void()> ended) {
  out_.start(shared_from_this());
  error_.start(shared_from_this());
  process_.async_wait(stream_descriptor::wait_read,
                      [self = shared_from_this(), about_to_reap = std::move(about_to_reap),
                       ended = std::move(ended)](const boost::system::error_code&) {
                        if (!self->process_.is_open()) return;
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
  out_.close();
  error_.close();
}

}  // namespace c10dd::run
