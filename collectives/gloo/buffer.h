// SPDX-License-Identifier: Apache-2.0
// StoppableBuffer: the buffer that Gloo's collectives use. A wait for a message either succeeds or
// throws, and the buffer knows for which peers a thread waits. A message for which no thread waits
// yet may have arrived, so its peer is not one of them.
#pragma once

#include <gloo/transport/unbound_buffer.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <mutex>
#include <vector>

#include "collectives/gloo/transport.h"

namespace c10dd::collectives {

/// Wraps a buffer of Gloo. The transport must outlive the buffer. interrupt() and add_awaited() are
/// thread-safe. Only the thread that runs the collective may call the other methods.
class StoppableBuffer final : public ::gloo::transport::UnboundBuffer {
 public:
  using Inner = ::gloo::transport::UnboundBuffer;
  using Milliseconds = std::chrono::milliseconds;

  StoppableBuffer(Transport& transport, std::unique_ptr<Inner> inner)
      : UnboundBuffer(inner->ptr, inner->size), transport_(transport), inner_(std::move(inner)) {
    const std::lock_guard lock(transport_.mutex_);
    transport_.buffers_.insert(this);
  }

  ~StoppableBuffer() override {
    const std::lock_guard lock(transport_.mutex_);
    transport_.buffers_.erase(this);
  }

  // Does not use Gloo's time-out: Gloo would close the connection, and peers would report this rank
  // as lost. Instead, the transport's guard thread ends the wait at the collective's deadline.
  bool waitRecv(int* source, Milliseconds) override {
    return wait(receives_, source, [this](int* peer) { return inner_->waitRecv(peer, kForever); });
  }
  bool waitSend(int* target, Milliseconds) override {
    return wait(sends_, target, [this](int* peer) { return inner_->waitSend(peer, kForever); });
  }

  void abortWaitRecv() override { inner_->abortWaitRecv(); }
  void abortWaitSend() override { inner_->abortWaitSend(); }

  void send(int peer, std::uint64_t slot, std::size_t offset, std::size_t bytes) override {
    post(sends_, peer);
    inner_->send(peer, slot, offset, bytes);
  }
  void recv(int peer, std::uint64_t slot, std::size_t offset, std::size_t bytes) override {
    post(receives_, peer);
    inner_->recv(peer, slot, offset, bytes);
  }
  void recv(std::vector<int> peers, std::uint64_t slot, std::size_t offset,
            std::size_t bytes) override {
    throw_if_stopped();
    inner_->recv(std::move(peers), slot, offset, bytes);
  }

  /// Causes the running wait to throw an exception. If no wait is running, the next wait throws.
  void interrupt() {
    inner_->abortWaitRecv();
    inner_->abortWaitSend();
  }

  /// If a wait is running, appends to `ranks` the peers for which it waits.
  void add_awaited(std::vector<Rank>& ranks) const {
    const std::lock_guard lock(mutex_);
    if (awaited_ == nullptr) return;
    for (const int peer : *awaited_) ranks.push_back(static_cast<Rank>(peer));
  }

 private:
  static constexpr Milliseconds kForever = std::chrono::hours(24 * 365);

  void throw_if_stopped() const {
    if (transport_.is_stopped_) throw Stopped();
  }

  void post(std::vector<int>& pending, int peer) {
    throw_if_stopped();
    const std::lock_guard lock(mutex_);
    pending.push_back(peer);
  }

  void set_awaited(const std::vector<int>* pending) {
    transport_.waits_.fetch_add(1, std::memory_order_relaxed);
    const std::lock_guard lock(mutex_);
    awaited_ = pending;
  }

  /// If it throws, no further wait of the collective is running or will run.
  template <class Wait>
  bool wait(std::vector<int>& pending, int* peer, Wait inner_wait) {
    throw_if_stopped();
    set_awaited(&pending);
    int completed = -1;
    if (!inner_wait(&completed)) throw Stopped();
    if (peer != nullptr) *peer = completed;
    const std::lock_guard lock(mutex_);
    awaited_ = nullptr;
    const auto found = std::find(pending.begin(), pending.end(), completed);
    if (found != pending.end()) {
      pending.erase(found);
    } else {
      // Gloo reports only the last of several completions. So `pending` is out of date, and it is
      // unknown which peers are still pending.
      pending.clear();
    }
    return true;
  }

  Transport& transport_;
  const std::unique_ptr<Inner> inner_;
  mutable std::mutex mutex_;
  std::vector<int> receives_;  // peers of the posted receives whose end no wait has returned yet
  std::vector<int> sends_;     // peers of the posted sends whose end no wait has returned yet
  const std::vector<int>* awaited_ = nullptr;  // the list of the running wait
};

}  // namespace c10dd::collectives
