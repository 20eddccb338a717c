// SPDX-License-Identifier: Apache-2.0
// How many connections there may be: in all, so that files stay for the state, and from one
// address, so that one machine cannot take them all. On the listener's loop; a ticket may end on
// any thread.
#pragma once

#include <array>
#include <atomic>
#include <boost/asio/ip/address.hpp>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "daemon/config/options.h"
#include "protocol/error.h"

namespace c10dd::daemon {

/// One connection's place; given back with it.
class Ticket {
 public:
  using Count = std::atomic<std::size_t>;

  Ticket() = default;
  /// Counts in both, or in one.
  explicit Ticket(std::shared_ptr<Count> a, std::shared_ptr<Count> b = nullptr)
      : counts_{std::move(a), std::move(b)} {
    for (const auto& count : counts_) {
      if (count) ++*count;
    }
  }
  Ticket(Ticket&& other) noexcept : counts_(std::exchange(other.counts_, {})) {}
  Ticket& operator=(Ticket&& other) noexcept {
    std::swap(counts_, other.counts_);
    return *this;
  }
  ~Ticket() {
    for (const auto& count : counts_) {
      if (count) --*count;
    }
  }

 private:
  std::array<std::shared_ptr<Count>, 2> counts_;
};

class Admission {
 public:
  /// Raises the limit of open files as far as it goes.
  explicit Admission(const Options& options);

  /// quota_exceeded with both numbers.
  Result<void> may_enter(const boost::asio::ip::address& from) const;

  Ticket enter(const boost::asio::ip::address& from);

  /// The place of a connection that stays only to be told why; none when too many are being told.
  std::optional<Ticket> enter_for_probes();

 private:
  void forget_the_gone();

  std::size_t limit_;
  std::size_t per_address_;
  std::shared_ptr<Ticket::Count> all_ = std::make_shared<Ticket::Count>(0);
  std::shared_ptr<Ticket::Count> aside_ = std::make_shared<Ticket::Count>(0);
  std::map<boost::asio::ip::address, std::shared_ptr<Ticket::Count>> by_address_;
};

}  // namespace c10dd::daemon
