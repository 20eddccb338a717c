// SPDX-License-Identifier: Apache-2.0
#include "daemon/net/admission.h"

#include <sys/resource.h>

#include <algorithm>

#include "protocol/format.h"
#include "protocol/limits.h"

namespace c10dd::daemon {
namespace {

constexpr std::size_t kKeptForOthers = 8;      // TCPStore leaves one of so many connections
constexpr std::size_t kAddressesKept = 4'096;  // above this number, unused addresses are dropped

/// Raises the soft limit of open files to the hard limit. Returns the resulting limit.
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
    return failure(Code::quota_exceeded,
                   "too many connections: {} with this one, limit {}; raise --max-connections or "
                   "the limit of open files",
                   all + 1, limit_);
  }
  std::size_t most = per_address_;
  if (most == 0) most = from.is_loopback() ? limit_ : limits::kConnectionsPerAddress;
  const auto known = by_address_.find(from);
  const std::size_t here = known == by_address_.end() ? 0 : known->second->load();
  if (here < most) return {};
  return failure(Code::quota_exceeded,
                 "too many connections from {}: {} with this one, limit {}; share connections, or "
                 "raise --max-connections-per-address",
                 from.to_string(), here + 1, most);
}

Ticket Admission::enter(const boost::asio::ip::address& from) {
  if (by_address_.size() >= kAddressesKept) forget_idle_addresses();
  std::shared_ptr<Ticket::Count>& count = by_address_[from];
  if (!count) count = std::make_shared<Ticket::Count>(0);
  return Ticket(all_, count);
}

Result<Ticket> Admission::enter_own() {
  const std::size_t all = *all_;
  if (all < limit_) return Ticket(all_);
  return failure(Code::quota_exceeded,
                 "too many connections and endpoints: {} with this one, limit {}; raise "
                 "--max-connections or the limit of open files",
                 all + 1, limit_);
}

Result<void> Admission::may_enter_tcpstore() const {
  const std::size_t most = limit_ - limit_ / kKeptForOthers;
  const std::size_t here = *tcpstore_;
  if (here < most) return {};
  return failure(Code::quota_exceeded,
                 "too many TCPStore connections: {} with this one, limit {}, because {} of {} are "
                 "reserved for native and HTTP clients; raise --max-connections or the limit of "
                 "open files",
                 here + 1, most, limit_ - most, limit_);
}

Result<Ticket> Admission::enter_link() {
  if (Result<void> admitted = may_enter_tcpstore(); !admitted) return admitted.error();
  Result<Ticket> ticket = enter_own();
  if (ticket) ticket->also_count(tcpstore_);
  return ticket;
}

std::optional<Ticket> Admission::enter_for_probes() {
  if (*refused_ >= limits::kSpareFiles / 2) return std::nullopt;
  return Ticket(refused_);
}

void Admission::forget_idle_addresses() {
  std::erase_if(by_address_, [](const auto& entry) { return *entry.second == 0; });
}

}  // namespace c10dd::daemon
