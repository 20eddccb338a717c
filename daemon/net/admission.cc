// SPDX-License-Identifier: Apache-2.0
// Counts.
#include "daemon/net/admission.h"

#include <sys/resource.h>

#include <algorithm>

#include "protocol/limits.h"

namespace c10dd::daemon {
namespace {

constexpr std::size_t kAddressesKept = 4'096;  // then those without connections are forgotten

std::size_t open_files() {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return 1024;
  if (files.rlim_cur < files.rlim_max) {
    rlimit most{files.rlim_max, files.rlim_max};
    if (::setrlimit(RLIMIT_NOFILE, &most) == 0) files = most;
  }
  return files.rlim_cur;
}

}  // namespace

Admission::Admission(const Options& options) : per_address_(options.max_connections_per_address) {
  const std::size_t files = open_files();
  const std::size_t possible =
      files > 2 * limits::kSpareFiles ? files - limits::kSpareFiles : files / 2;
  limit_ = options.max_connections == 0 ? possible : std::min(options.max_connections, possible);
}

Result<void> Admission::may_enter(const boost::asio::ip::address& from) const {
  const std::size_t all = *all_;
  if (all >= limit_) {
    return failure(Code::quota_exceeded, "too many connections: " + std::to_string(all + 1) +
                                             " with this one, limit " + std::to_string(limit_) +
                                             "; see --max-connections and the limit of open files");
  }
  const std::size_t most = per_address_ != 0    ? per_address_
                           : from.is_loopback() ? limit_
                                                : limits::kConnectionsPerAddress;
  const auto known = by_address_.find(from);
  const std::size_t here = known == by_address_.end() ? 0 : known->second->load();
  if (here < most) return {};
  return failure(Code::quota_exceeded,
                 "too many connections from " + from.to_string() + ": " + std::to_string(here + 1) +
                     " with this one, limit " + std::to_string(most) +
                     "; share connections, or raise --max-connections-per-address");
}

Ticket Admission::enter(const boost::asio::ip::address& from) {
  if (by_address_.size() >= kAddressesKept) forget_the_gone();
  std::shared_ptr<Ticket::Count>& count = by_address_[from];
  if (!count) count = std::make_shared<Ticket::Count>(0);
  return Ticket(all_, count);
}

std::optional<Ticket> Admission::enter_for_probes() {
  if (*aside_ >= limits::kSpareFiles / 2) return std::nullopt;
  return Ticket(aside_);
}

void Admission::forget_the_gone() {
  std::erase_if(by_address_, [](const auto& entry) { return *entry.second == 0; });
}

}  // namespace c10dd::daemon
