// SPDX-License-Identifier: Apache-2.0
// Gathers frames and writes them. Waits only if the kernel has no room for more bytes.
#include "daemon/net/outbox.h"

#include <boost/asio/error.hpp>
#include <boost/container/static_vector.hpp>

#include "protocol/limits.h"

namespace c10dd::daemon {
namespace {
constexpr std::size_t kGather = 32;                // buffers in one write
constexpr std::size_t kSegmentBytes = 256 * 1024;  // small frames are gathered up to this size
constexpr std::size_t kSegmentsKept = 4;           // an empty outbox has room for at most so many
constexpr std::size_t kSpareBuffers = 64;
constexpr std::size_t kSpareBytes = 64 * 1024;

/// The empty buffers that the outboxes of a thread share, so that an idle outbox holds none.
std::vector<Bytes>& spare_buffers() {
  static thread_local std::vector<Bytes> buffers;
  return buffers;
}

void give_back(Bytes& buffer) {
  std::vector<Bytes>& spares = spare_buffers();
  if (buffer.capacity() > kSpareBytes || spares.size() >= kSpareBuffers) return;
  buffer.clear();
  spares.push_back(std::move(buffer));
}

void take_spare(Bytes& into) {
  std::vector<Bytes>& spares = spare_buffers();
  if (spares.empty()) return;
  into = std::move(spares.back());
  spares.pop_back();
}

}  // namespace

Outbox::Outbox(std::shared_ptr<Stream> stream, Callbacks callbacks)
    : stream_(std::move(stream)), callbacks_(std::move(callbacks)) {}

/// Returns the segment that gets the next frame.
Outbox::Segment& Outbox::open_segment() {
  const bool open = !segments_.empty() && segments_.back().shared.length == 0 &&
                    segments_.back().own.size() < kSegmentBytes;
  if (open) return segments_.back();
  Segment& segment = segments_.emplace_back();
  take_spare(segment.own);
  return segment;
}

void Outbox::added(std::size_t bytes) {
  bytes_ += bytes;
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
    boost::container::static_vector<asio::const_buffer, kGather> buffers;
    for (const Segment& segment : std::span(segments_).subspan(front_)) {
      if (buffers.size() + 2 > kGather) break;
      buffers.push_back(asio::buffer(segment.own));
      const std::string_view shared = segment.shared.view();
      if (!shared.empty()) buffers.push_back(asio::buffer(shared.data(), shared.size()));
    }
    std::size_t skip = offset_;
    std::size_t first = 0;
    while (skip >= buffers[first].size()) skip -= buffers[first++].size();
    buffers[first] += skip;
    ErrorCode failed;
    const std::size_t written =
        stream_->write_now(std::span(buffers.data(), buffers.size()).subspan(first), failed);
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
  if (bytes_ == 0) {
    clear();
  } else {
    drop_segments();
  }
  report_size();
  const bool drained = was_over_soft != over_soft_limit() || was_over_small != over_small_limit();
  if (drained && callbacks_.on_drained) callbacks_.on_drained();
}

/// Drops the segments that are written completely.
void Outbox::drop_segments() {
  for (; front_ < segments_.size(); ++front_) {
    Segment& segment = segments_[front_];
    const std::size_t size = segment.own.size() + segment.shared.length;
    if (offset_ < size) break;
    offset_ -= size;
    give_back(segment.own);
    segment = {};
  }
  if (front_ > kSegmentsKept && front_ > segments_.size() / 2) {
    segments_.erase(segments_.begin(), segments_.begin() + static_cast<std::ptrdiff_t>(front_));
    front_ = 0;
  }
}

void Outbox::clear() {
  for (Segment& segment : std::span(segments_).subspan(front_)) give_back(segment.own);
  segments_.clear();
  if (segments_.capacity() > kSegmentsKept) segments_.shrink_to_fit();
  front_ = offset_ = bytes_ = 0;
}

void Outbox::die(const char* reason) {
  dead_ = true;
  clear();
  report_size();
  if (const auto on_dead = std::exchange(callbacks_.on_dead, nullptr)) on_dead(reason);
}

void Outbox::abandon() {
  callbacks_ = {};
  die("abandoned");
}

}  // namespace c10dd::daemon
