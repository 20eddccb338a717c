// SPDX-License-Identifier: Apache-2.0
// The outbound side of one connection: bounded bytes, one write at a time. Small frames gather in
// one buffer; shared buffers are written from where they are.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <memory>

#include "daemon/stream.h"
#include "protocol/native_wire.h"

namespace c10dd::daemon {

class Outbox : public std::enable_shared_from_this<Outbox> {
 public:
  /// on_drained is called when the bytes fall below limits::kOutboxSoftBytes again, on_dead once
  /// when writing has failed or the reader was too slow.
  Outbox(std::shared_ptr<Stream> stream, std::function<void()> on_drained,
         std::function<void(const char* reason)> on_dead);

  /// Above limits::kOutboxHardBytes it dies if the peer has taken nothing for kOutboxPatience.
  /// Nothing is taken any more then: half a frame may have left.
  void add(native::EncodedReply frame);

  /// Writes what goes; the rest follows by itself. Called at the end of a turn.
  void flush();

  bool over_soft_limit() const;
  bool empty() const { return bytes_ == 0; }

  /// No callbacks any more.
  void abandon();

 private:
  struct Segment {
    Bytes own;           ///< first
    SharedBytes shared;  ///< then this
  };

  void take_measures();
  void drop(std::size_t written);
  void die(const char* reason);

  std::shared_ptr<Stream> stream_;
  std::function<void()> on_drained_;
  std::function<void(const char*)> on_dead_;
  std::deque<Segment> segments_;
  std::size_t offset_ = 0;  // written of the first segment
  std::size_t bytes_ = 0;
  bool waiting_ = false;  // for the kernel to take more
  std::chrono::steady_clock::time_point full_since_;
  bool dead_ = false;
};

}  // namespace c10dd::daemon
