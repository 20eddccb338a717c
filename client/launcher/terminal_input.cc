// SPDX-License-Identifier: Apache-2.0
#include "client/launcher/terminal_input.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <system_error>

namespace c10dd::run {
namespace {

constexpr std::chrono::milliseconds kLook{200};  // whether this process is in the foreground again

}  // namespace

TerminalInput::TerminalInput(boost::asio::io_context& loop, int terminal)
    : terminal_(terminal), input_(loop, fcntl(terminal, F_DUPFD_CLOEXEC, 0)), background_(loop) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw std::system_error(errno, std::generic_category(), "pipe");
  worker_end_ = client::Descriptor(ends[0]);
  pipe_ = client::Descriptor(ends[1]);
  fcntl(ends[1], F_SETFL, O_NONBLOCK);
}

void TerminalInput::start() {
  input_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                    [self = shared_from_this()](const boost::system::error_code& error) {
                      if (!error && self->input_.is_open()) self->pass_on();
                    });
}

void TerminalInput::stop() {
  boost::system::error_code ignored;
  input_.close(ignored);
  background_.cancel();
  pipe_ = client::Descriptor();
}

void TerminalInput::pass_on() {
  if (tcgetpgrp(terminal_) != getpgrp()) {  // in the background: what is typed is for the shell
    background_.expires_after(kLook);
    return background_.async_wait(
        [self = shared_from_this()](const boost::system::error_code& error) {
          if (!error && self->input_.is_open()) self->start();
        });
  }
  char typed[4096];
  const ssize_t n = read(terminal_, typed, sizeof typed);
  if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN)) return stop();  // Ctrl-D
  // If the worker does not read, what is typed after 64 KiB is lost.
  if (n > 0 && write(pipe_.get(), typed, static_cast<std::size_t>(n)) < 0 && errno != EAGAIN) {
    return stop();
  }
  start();
}

}  // namespace c10dd::run
