// SPDX-License-Identifier: Apache-2.0
// The outbound side of one connection: bounded bytes, one write at a time. Small frames gather in
// one buffer; shared buffers are written from where they are.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <memory>

#include "daemon/net/stream.h"
#include "protocol/native_wire.h"

namespace c10dd::daemon {

class Outbox : public std::enable_shared_from_this<Outbox> {
 public:
  struct Callbacks {
    std::function<void()> on_drained;  ///< the bytes fell below one of the limits again
    std::function<void(const char* reason)> on_dead;  ///< once: writing failed, or was too slow
    std::function<void(std::size_t bytes)> on_size;   ///< above the small limit, or below it again
  };
  Outbox(std::shared_ptr<Stream> stream, Callbacks callbacks);

  /// Above limits::kOutboxHardBytes it dies if the peer has taken nothing for kOutboxPatience.
  /// Nothing is taken any more then: half a frame may have left.
  void add(native::EncodedReply frame);

  /// Writes what goes; the rest follows by itself. Called at the end of a turn.
  void flush();

  bool over_soft_limit() const;   ///< limits::kOutboxSoftBytes
  bool over_small_limit() const;  ///< limits::kSmallFrameBytes
  bool empty() const { return bytes_ == 0; }

  /// Nothing is written, and nobody called, any more.
  void abandon();

 private:
  struct Segment {
    Bytes own;           ///< first
    SharedBytes shared;  ///< then this
  };

  void take_measures();
  void tell_size();
  void drop(std::size_t written);
  void die(const char* reason);

  std::shared_ptr<Stream> stream_;
  Callbacks callbacks_;
  std::deque<Segment> segments_;
  std::size_t offset_ = 0;  // written of the first segment
  std::size_t bytes_ = 0;
  bool waiting_ = false;  // for the kernel to take more
  std::chrono::steady_clock::time_point full_since_;
  bool size_told_ = false;  // above the small limit
  bool dead_ = false;
};

}  // namespace c10dd::daemon
