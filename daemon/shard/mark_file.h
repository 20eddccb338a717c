// SPDX-License-Identifier: Apache-2.0
// The file of --mark: how far the state of a shared engine had come when this daemon last heard of
// it. Written on a thread of its own, so that a disk that hangs delays no heartbeat.
#pragma once

#include <atomic>
#include <boost/asio/thread_pool.hpp>
#include <optional>
#include <string>

#include "daemon/core/fleet/state_watch.h"
#include "store/slot_file.h"

namespace c10dd::daemon {

class MarkFile {
 public:
  /// An empty path: there is no file, and nothing is done.
  explicit MarkFile(std::string path) : path_(std::move(path)) {}

  /// Opens the file and returns its mark; an empty one if there is no file. Fails with malformed if
  /// the file is damaged. Blocks. Called before write().
  Result<core::StateMark> read();

  /// Writes the first mark of this process, so that a start fails if no mark can be written.
  /// Blocks.
  Result<void> write_first(const core::StateMark& mark);
  /// Returns the failure of a start whose file cannot be used.
  static Failure unusable(const Failure& why);

  /// Writes a mark, unless the write before has not ended: then the next one is soon enough.
  void write(const core::StateMark& mark);

 private:
  const std::string path_;
  std::optional<store::SlotFile> file_;  ///< used on thread_ after read()
  std::atomic<bool> writing_{false};
  bool failed_ = false;                 ///< of the newest write; used on thread_
  boost::asio::thread_pool thread_{1};  ///< the last member, so destroyed first
};

}  // namespace c10dd::daemon
