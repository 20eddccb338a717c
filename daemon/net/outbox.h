// SPDX-License-Identifier: Apache-2.0
// Holds the bytes that wait to be written to one connection, up to a limit. Small frames are
// gathered in one buffer. Shared buffers are written without a copy.
// All functions must be called on the stream's loop.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include "daemon/net/stream.h"
#include "protocol/shared_bytes.h"

namespace c10dd::daemon {

class Outbox : public std::enable_shared_from_this<Outbox> {
 public:
  struct Callbacks {
    /// Called each time the queue falls below the soft limit or below the small limit.
    std::function<void()> on_drained;
    /// Called once, when a write has failed or the peer reads too slowly. `reason` is a metric
    /// label.
    std::function<void(const char* reason)> on_dead;
    /// Called after each change of the queue's size, unless the queue stays below the small limit.
    std::function<void(std::size_t bytes)> on_size;
  };
  Outbox(std::shared_ptr<Stream> stream, Callbacks callbacks);

  /// Queues a frame. `write` must append the first bytes of the frame to its argument, and return
  /// the shared bytes that end the frame; it may also write nothing. It is not called if the outbox
  /// has ended. If more than limits::kOutboxHardBytes are queued and the peer has taken nothing for
  /// kOutboxFullTime, the outbox ends and calls on_dead. The outbox also ends if more than
  /// kOutboxMostBytes are queued. After its end, the outbox ignores all frames, because part of the
  /// last frame may have been sent.
  template <class Write>
  void add(Write&& write) {
    if (dead_) return;
    Segment& segment = open_segment();
    const std::size_t before = segment.own.size();
    segment.shared = write(segment.own);
    const std::size_t more = segment.own.size() - before + segment.shared.length;
    if (more > 0) return added(more);
    if (bytes_ == 0) clear();  // keeps no buffer
  }

  /// Writes as many bytes as the kernel accepts. Writes the rest when the kernel has room again.
  /// Called at the end of a turn of the loop.
  void flush();

  bool over_soft_limit() const;   ///< above limits::kOutboxSoftBytes
  bool over_small_limit() const;  ///< above limits::kSmallFrameBytes
  bool empty() const { return bytes_ == 0; }

  /// Drops the queue. After that, the outbox writes nothing and calls no callback.
  void abandon();

 private:
  struct Segment {
    Bytes own;           ///< written first
    SharedBytes shared;  ///< written after `own`
  };

  Segment& open_segment();
  void added(std::size_t bytes);
  void enforce_hard_limit();
  void report_size();
  void drop(std::size_t written);
  void drop_segments();
  void clear();
  void die(const char* reason);

  std::shared_ptr<Stream> stream_;
  Callbacks callbacks_;
  std::vector<Segment> segments_;
  std::size_t front_ = 0;   // index of the first segment that is not written completely
  std::size_t offset_ = 0;  // number of written bytes of that segment
  std::size_t bytes_ = 0;
  bool waiting_ = false;                              // until the kernel takes more
  std::chrono::steady_clock::time_point full_since_;  // the last time that a write found no room
  bool size_reported_ = false;                        // last reported size exceeds the small limit
  bool dead_ = false;
};

}  // namespace c10dd::daemon
