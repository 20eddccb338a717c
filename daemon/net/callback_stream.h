// SPDX-License-Identifier: Apache-2.0
// A stream whose subclass reads and waits for room by callbacks. Implements the coroutines with
// them.
#pragma once

#include "daemon/net/stream.h"

namespace c10dd::daemon {

class CallbackStream : public Stream {
 public:
  using Stream::Stream;

  asio::awaitable<std::size_t> read_next(asio::mutable_buffer into, ErrorCode& failed) final;
  asio::awaitable<std::size_t> write_next(asio::const_buffer from, ErrorCode& failed) final;
  void read_into(asio::mutable_buffer into, std::shared_ptr<StreamReader> reader) override = 0;

 protected:
  /// Ends write_next() with an error. cancel() of a subclass calls it, and then the function that
  /// waits for room.
  void cancel_writes() { ++cancelled_; }

 private:
  unsigned cancelled_ = 0;  // how often
};

}  // namespace c10dd::daemon
