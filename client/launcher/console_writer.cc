// SPDX-License-Identifier: Apache-2.0
#include "client/launcher/console_writer.h"

#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>

#include "protocol/format.h"

namespace c10dd::run {
namespace {

constexpr std::chrono::milliseconds kRoomWait{100};
constexpr std::chrono::seconds kReadWithin{1};  // a console that took bytes since then is read
constexpr int kPollMilliseconds = 20;           // until the other stream is looked at again
constexpr int kFds[] = {STDOUT_FILENO, STDERR_FILENO};

/// Returns how many bytes a write takes without blocking when poll() has said that there is room.
std::size_t write_size(int fd) {
  struct stat status {};
  const bool is_file = fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
  return is_file ? std::size_t{1} << 20 : PIPE_BUF;
}

std::string dropped_text(std::size_t lines) {
  return format(
      "c10drun: {} lines were dropped here, because nobody read them; use --log-dir to keep all\n",
      lines);
}

}  // namespace

bool ConsoleWriter::Shared::is_read() const { return Clock::now() - progress < kReadWithin; }

ConsoleWriter::~ConsoleWriter() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->over = true;
  }
  shared_->more.notify_one();
  thread_.detach();
}

void ConsoleWriter::put(Stream stream, std::string bytes) {
  if (!thread_.joinable()) {
    thread_ = std::thread([shared = shared_] { work(*shared); });
  }
  std::unique_lock lock(shared_->mutex);
  Queue& queue = shared_->queues[static_cast<std::size_t>(stream)];
  const auto has_room = [&] {
    return queue.closed || queue.bytes == 0 || queue.bytes + bytes.size() <= kQueueBytes;
  };
  if (shared_->is_empty()) shared_->progress = Clock::now();
  if (!has_room() && shared_->is_read()) shared_->less.wait_for(lock, kRoomWait, has_room);
  if (queue.closed) return;
  if (!has_room()) {
    queue.dropped += static_cast<std::size_t>(std::ranges::count(bytes, '\n'));
    return;
  }
  if (queue.dropped > 0) {
    const std::size_t lines = std::exchange(queue.dropped, 0);
    bytes.insert(0, dropped_text(lines));
  }
  queue.bytes += bytes.size();
  queue.chunks.push_back({shared_->next++, std::move(bytes)});
  lock.unlock();
  shared_->more.notify_one();
}

void ConsoleWriter::finish() {
  std::unique_lock lock(shared_->mutex);
  while (!shared_->is_empty() && Clock::now() - shared_->progress < last_read_) {
    shared_->less.wait_for(lock, kRoomWait);
  }
  std::size_t lines = 0;
  for (Queue& queue : shared_->queues) {
    lines += queue.dropped;
    for (const Chunk& chunk : queue.chunks) {
      lines += static_cast<std::size_t>(std::ranges::count(chunk.bytes, '\n'));
    }
    queue = {};
    queue.closed = true;
  }
  if (lines == 0) return;
  pollfd room{STDERR_FILENO, POLLOUT, 0};
  if (poll(&room, 1, 0) <= 0) return;
  const std::string text = dropped_text(lines);
  static_cast<void>(!::write(STDERR_FILENO, text.data(), text.size()));
}

void ConsoleWriter::work(Shared& shared) {
  std::unique_lock lock(shared.mutex);
  while (!shared.over) {
    if (shared.is_empty()) {
      shared.more.wait(lock);
    } else {
      write_some(shared, lock);
    }
  }
}

/// Writes a part of the oldest chunk that can be written now. Waits a while if there is none.
void ConsoleWriter::write_some(Shared& shared, std::unique_lock<std::mutex>& lock) {
  pollfd room[2];
  for (std::size_t i = 0; i < 2; ++i) {
    room[i] = {shared.queues[i].chunks.empty() ? -1 : kFds[i], POLLOUT, 0};
  }
  lock.unlock();
  poll(room, 2, kPollMilliseconds);
  lock.lock();
  std::size_t chosen = 2;
  for (std::size_t i = 0; i < 2; ++i) {
    if (room[i].fd < 0 || room[i].revents == 0) continue;
    if (shared.queues[i].chunks.empty()) continue;  // finish() has dropped them meanwhile
    if (chosen == 2 ||
        shared.queues[i].chunks.front().number < shared.queues[chosen].chunks.front().number) {
      chosen = i;
    }
  }
  if (chosen == 2) return;
  Queue& queue = shared.queues[chosen];
  const std::string part = queue.chunks.front().bytes.substr(0, write_size(kFds[chosen]));
  lock.unlock();
  const ssize_t n = ::write(kFds[chosen], part.data(), part.size());
  const int error = errno;
  lock.lock();
  if (queue.closed) return;  // finish() has dropped it meanwhile
  if (n > 0) {
    shared.progress = Clock::now();
    std::string& first = queue.chunks.front().bytes;
    first.erase(0, static_cast<std::size_t>(n));
    queue.bytes -= static_cast<std::size_t>(n);
    if (first.empty()) queue.chunks.pop_front();
  } else if (error != EAGAIN && error != EINTR) {
    queue.closed = true;
    queue.chunks.clear();
    queue.bytes = 0;
  }
  shared.less.notify_all();
}

}  // namespace c10dd::run
