// SPDX-License-Identifier: Apache-2.0
// Groups of some ranks of another group.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "collectives/abortable_group.h"

namespace c10dd::collectives {

/// A Bootstrap over an Exchange. Takes this rank's address from the Bootstrap of the other group.
class SubgroupBootstrap final : public Bootstrap {
 public:
  SubgroupBootstrap(Exchange exchange, std::shared_ptr<Bootstrap> parent)
      : exchange_(std::move(exchange)), parent_(std::move(parent)) {}

  std::vector<std::string> transpose(std::vector<std::string> parts, Duration timeout) override {
    return exchange_(ExchangeShape::transpose, std::move(parts), timeout);
  }
  std::string local_address() const override { return parent_->local_address(); }

 private:
  const Exchange exchange_;
  const std::shared_ptr<Bootstrap> parent_;
};

/// Returns the World of the group of these ranks of `parent`. Throws InvalidArgument if the list
/// has a rank twice, lacks the own rank, or names a rank that `parent` does not have.
World subworld(const World& parent, const std::vector<Rank>& ranks, const SubgroupOptions& options);

/// Returns the options of a group that is made from a group with the options `parent`.
GroupOptions options_of(const GroupOptions& parent, const SubgroupOptions& options);

/// What the ranks of a group have agreed on in ProcessGroup::split().
struct SplitPlan {
  std::vector<Rank> ranks = {};  ///< of this rank's part, in the order of their ranks there
  bool by_backend = false;       ///< the backends of all ranks can split
};

/// Returns the plan of a split. `can_split`: Backend::splits() of this rank. A collective of
/// `parent`.
SplitPlan plan_split(ProcessGroup& parent, std::int32_t color, std::int32_t key, bool can_split);

/// Exchanges parts among the ranks `ranks` of `parent`, see Exchange. A collective of `parent`; a
/// rank that has nothing to exchange gives empty lists.
std::vector<std::string> exchange_over(ProcessGroup& parent, const std::vector<Rank>& ranks,
                                       ExchangeShape shape, std::vector<std::string> parts,
                                       Duration timeout);

/// Returns the failure of `function` if ranks of `world` have not come. Takes their hosts and
/// process ids from `world`.
Failure missed(const World& world, const char* function, Duration timeout, const TimedOut& late);

/// Returns an Exchange among the ranks of `child` that names the missing ones as missed() does. The
/// TimedOut of `exchange` counts them in `child`.
Exchange naming_the_missing(Exchange exchange, const World& child);

}  // namespace c10dd::collectives
