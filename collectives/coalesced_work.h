// SPDX-License-Identifier: Apache-2.0
// CoalescedWork: the Work of several operations that were issued together.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "collectives/work.h"

namespace c10dd::collectives {

/// Ends when all of its parts have ended. Its failure is that of the first part, in the order of
/// the list, that is not done. Thread-safe.
class CoalescedWork final : public Work, public std::enable_shared_from_this<CoalescedWork> {
 public:
  /// `parts` has at least one element.
  explicit CoalescedWork(std::vector<WorkPtr> parts) : parts_(std::move(parts)) {}

  Status status() const override;
  bool test() override;
  void wait() override;
  void wait(void* stream) override;
  void wait_on_host() override;
  void wait(Duration timeout) override;
  void on_end(std::function<void(Work&)> callback) override;
  void abort(const std::string& reason) override { parts_.front()->abort(reason); }
  Code code() const override { return decisive().code(); }
  std::string error() const override { return decisive().error(); }
  std::vector<Missing> failed_ranks() const override { return decisive().failed_ranks(); }
  Received received() const override { return {}; }
  Duration duration() const override;
  std::uint64_t sequence() const override { return parts_.front()->sequence(); }

 private:
  const Work& decisive() const;

  const std::vector<WorkPtr> parts_;
};

}  // namespace c10dd::collectives
