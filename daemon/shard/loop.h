// SPDX-License-Identifier: Apache-2.0
// An event loop of one thread.
#pragma once

#include <boost/asio/io_context.hpp>

namespace c10dd::daemon {

class Loop : public boost::asio::io_context {
 public:
  Loop() : io_context(1) {}

  /// When no thread runs it any more: destroys what waits in it. Loops that hold each other's
  /// connections are all emptied before the first is destroyed.
  void empty() { shutdown(); }
};

}  // namespace c10dd::daemon
