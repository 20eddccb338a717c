// SPDX-License-Identifier: Apache-2.0
// Writes to the standard output and error of this process on a thread of its own, in the order of
// put() as far as both are read.
#pragma once

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

namespace c10dd::run {

class ConsoleWriter {
 public:
  enum class Stream : std::uint8_t { out, error };
  /// How many bytes of a stream wait at most.
  static constexpr std::size_t kQueueBytes = std::size_t{4} << 20;
  /// How long finish() waits for a console that is read late.
  static constexpr std::chrono::milliseconds kLastRead{5'000};

  /// Starts no thread before the first put(): this process may fork first.
  explicit ConsoleWriter(std::chrono::milliseconds last_read = kLastRead) : last_read_(last_read) {}
  /// Drops what is not written yet; call finish() first. If the thread hangs in a write, it is left
  /// to the end of the process.
  ~ConsoleWriter();
  ConsoleWriter(const ConsoleWriter&) = delete;
  ConsoleWriter& operator=(const ConsoleWriter&) = delete;

  /// Queues whole lines, or parts of lines. If there is no room, waits up to 0.1 s if the console
  /// was read during the last second, and otherwise drops the bytes. The number of dropped lines is
  /// printed when there is room again.
  void put(Stream stream, std::string bytes);

  /// Waits until all is written, or until nothing was written for `last_read`. Then drops the rest,
  /// and says on standard error how many lines that are.
  void finish();

 private:
  using Clock = std::chrono::steady_clock;

  struct Chunk {
    std::uint64_t number;  ///< counts the chunks of both streams
    std::string bytes;
  };
  struct Queue {
    std::deque<Chunk> chunks = {};
    std::size_t bytes = 0;
    std::size_t dropped = 0;  ///< lines, since the last one that was queued
    bool closed = false;      ///< a write has failed: nobody will read
  };
  struct Shared {
    bool is_empty() const { return queues[0].chunks.empty() && queues[1].chunks.empty(); }
    bool is_read() const;

    std::mutex mutex;  // guards all others
    std::condition_variable more;
    std::condition_variable less;
    std::array<Queue, 2> queues;
    std::uint64_t next = 0;
    Clock::time_point progress = Clock::now();  // when bytes were written last
    bool over = false;
  };
  static void work(Shared& shared);
  static void write_some(Shared& shared, std::unique_lock<std::mutex>& lock);

  const std::chrono::milliseconds last_read_;
  std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
  std::thread thread_;
};

}  // namespace c10dd::run
