// SPDX-License-Identifier: Apache-2.0
// Gathers frames and writes them. Waits only if the kernel has no room for more bytes.
#include "daemon/net/outbox.h"

#include <array>
#include <boost/asio/error.hpp>

#include "protocol/limits.h"

namespace c10dd::daemon {
namespace {
constexpr std::size_t kGather = 32;                // buffers in one write
constexpr std::size_t kSegmentBytes = 256 * 1024;  // small frames are gathered up to this size
}  // namespace

Outbox::Outbox(std::shared_ptr<Stream> stream, Callbacks callbacks)
    : stream_(std::move(stream)), callbacks_(std::move(callbacks)) {}

void Outbox::add(native::EncodedReply frame) {
  if (dead_) return;
  bytes_ += frame.size();
  const bool joins = !segments_.empty() && segments_.back().shared.length == 0 &&
                     segments_.back().own.size() + frame.head.size() <= kSegmentBytes;
  if (joins) {
    segments_.back().own += frame.head;
    segments_.back().shared = std::move(frame.tail);
  } else {
    segments_.push_back({std::move(frame.head), std::move(frame.tail)});
  }
  if (bytes_ > limits::kOutboxHardBytes) enforce_hard_limit();
  report_size();
}

/// Ends the outbox in two cases: more than limits::kOutboxHardBytes are queued and the peer has
/// stopped reading, or more than limits::kOutboxMostBytes are queued. The second limit is higher,
/// because a peer that still reads is allowed many large replies in the queue.
void Outbox::enforce_hard_limit() {
  flush();
  if (bytes_ <= limits::kOutboxHardBytes) return;
  const bool stuck = std::chrono::steady_clock::now() - full_since_ > limits::kOutboxFullTime;
  if (stuck || bytes_ > limits::kOutboxMostBytes) die("slow_consumer");
}

bool Outbox::over_soft_limit() const { return bytes_ > limits::kOutboxSoftBytes; }

bool Outbox::over_small_limit() const { return bytes_ > limits::kSmallFrameBytes; }

void Outbox::report_size() {
  if (!over_small_limit() && !size_reported_) return;
  size_reported_ = over_small_limit();
  if (callbacks_.on_size) callbacks_.on_size(bytes_);
}

void Outbox::flush() {
  while (bytes_ > 0 && !waiting_) {
    std::array<asio::const_buffer, kGather> buffers;
    std::size_t count = 0;
    for (const Segment& segment : segments_) {
      if (count + 2 > kGather) break;
      buffers[count++] = asio::buffer(segment.own);
      const std::string_view shared = segment.shared.view();
      if (!shared.empty()) buffers[count++] = asio::buffer(shared.data(), shared.size());
    }
    std::size_t skip = offset_;
    std::size_t first = 0;
    while (skip >= buffers[first].size()) skip -= buffers[first++].size();
    buffers[first] += skip;
    ErrorCode failed;
    const std::size_t written =
        stream_->write_now(std::span(buffers).subspan(first, count - first), failed);
    if (failed == asio::error::would_block) {
      waiting_ = true;
      full_since_ = std::chrono::steady_clock::now();
      stream_->when_writable([self = shared_from_this()] {
        self->waiting_ = false;
        self->flush();
      });
    } else if (failed) {
      die("peer");
    } else {
      drop(written);
    }
  }
}

void Outbox::drop(std::size_t written) {
  const bool was_over_soft = over_soft_limit();
  const bool was_over_small = over_small_limit();
  bytes_ -= written;
  offset_ += written;
  while (!segments_.empty()) {
    Segment& segment = segments_.front();
    const std::size_t size = segment.own.size() + segment.shared.length;
    if (offset_ < size) break;
    offset_ -= size;
    segments_.pop_front();
  }
  report_size();
  const bool drained = was_over_soft != over_soft_limit() || was_over_small != over_small_limit();
  if (drained && callbacks_.on_drained) callbacks_.on_drained();
}

void Outbox::die(const char* reason) {
  dead_ = true;
  segments_.clear();
  bytes_ = offset_ = 0;
  report_size();
  if (const auto on_dead = std::exchange(callbacks_.on_dead, nullptr)) on_dead(reason);
}

void Outbox::abandon() {
  callbacks_ = {};
  die("abandoned");
}

}  // namespace c10dd::daemon
