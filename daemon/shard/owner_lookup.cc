// SPDX-License-Identifier: Apache-2.0
#include "daemon/shard/owner_lookup.h"

#include <boost/asio/post.hpp>

#include "daemon/core/host/job_host.h"
#include "protocol/format.h"

namespace c10dd::daemon {

namespace asio = boost::asio;

void OwnerLookup::find(std::vector<JobNumber> jobs, std::function<void(Result<Found>)> then) {
  if (waiting_ >= kWaiting) {
    return then(core::unavailable(
        format("too many requests wait for the owner of a job: {}, limit {}", waiting_, kWaiting)));
  }
  ++waiting_;
  asio::post(thread_, [this, jobs = std::move(jobs), then = std::move(then)]() mutable {
    asio::post(loop_, [this, then = std::move(then), found = ask(jobs)]() mutable {
      --waiting_;
      then(std::move(found));
    });
  });
}

Result<OwnerLookup::Found> OwnerLookup::ask(const std::vector<JobNumber>& jobs) {
  const bool was_open = link_ != nullptr;
  if (!was_open) {
    Result<std::unique_ptr<store::Fleet>> link =
        store::open_fleet(url_, std::chrono::seconds(2), ca_file_);
    if (!link) return core::unavailable(link.error().detail);
    link_ = std::move(*link);
  }
  Result<store::FleetReading> fleet = link_->read();
  Result<std::vector<std::optional<store::Owner>>> owners =
      fleet ? link_->owners(jobs) : fleet.error();
  if (owners) return Found{std::move(*fleet), std::move(*owners)};
  link_.reset();
  if (was_open) return ask(jobs);  // the server may have closed the link since the last lookup
  return core::unavailable(owners.error().detail);
}

}  // namespace c10dd::daemon
