// SPDX-License-Identifier: Apache-2.0
// Groups of some ranks of another group.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "collectives/abortable_group.h"

namespace c10dd::collectives {

/// A Bootstrap over a Transpose. Takes this rank's address from the Bootstrap of the other group.
class SubgroupBootstrap final : public Bootstrap {
 public:
  SubgroupBootstrap(Transpose transpose, std::shared_ptr<Bootstrap> parent)
      : transpose_(std::move(transpose)), parent_(std::move(parent)) {}

  std::vector<std::string> transpose(std::vector<std::string> parts, Duration timeout) override {
    return transpose_(std::move(parts), timeout);
  }
  std::string local_address() const override { return parent_->local_address(); }

 private:
  const Transpose transpose_;
  const std::shared_ptr<Bootstrap> parent_;
};

/// Returns the World of the group of these ranks of `parent`. Throws InvalidArgument if the list
/// has a rank twice, lacks the own rank, or names a rank that `parent` does not have.
World subworld(const World& parent, const std::vector<Rank>& ranks, const SubgroupOptions& options);

/// Returns the options of a group that is made from a group with the options `parent`.
GroupOptions options_of(const GroupOptions& parent, const SubgroupOptions& options);

/// Returns the ranks of the group to which this rank belongs, in the order of their ranks there;
/// see ProcessGroup::split(). A collective of `parent`.
std::vector<Rank> ranks_of_color(ProcessGroup& parent, std::int32_t color, std::int32_t key);

/// Sends parts[i] to rank ranks[i] of `parent`, and returns what these ranks have sent to this one.
/// A collective of `parent`; a rank that has nothing to exchange gives empty lists.
std::vector<std::string> transpose_over(ProcessGroup& parent, const std::vector<Rank>& ranks,
                                        const std::vector<std::string>& parts, Duration timeout);

/// Returns the failure of a monitored_barrier. Takes the hosts and process ids from `world`.
Failure missed(const World& world, Duration timeout, const TimedOut& late);

}  // namespace c10dd::collectives
