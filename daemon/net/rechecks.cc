// SPDX-License-Identifier: Apache-2.0
#include "daemon/net/rechecks.h"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <utility>
#include <vector>

namespace c10dd::daemon {

void Rechecks::at(const std::shared_ptr<Recheckable>& connection, boost::asio::any_io_executor loop,
                  Time due) {
  const std::lock_guard lock(mutex_);
  const auto [it, is_new] = noted_.try_emplace(connection.get(), Noted{connection, loop, due});
  if (is_new) return;
  // A connection that has closed may have had the same address.
  if (it->second.connection.lock() == connection) {
    it->second.due = std::min(it->second.due, due);
  } else {
    it->second = {connection, std::move(loop), due};
  }
}

void Rechecks::look(Time now) {
  std::vector<Noted> due;
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(noted_, [&](const auto& entry) {
      const Noted& one = entry.second;
      if (one.due <= now && !one.connection.expired()) due.push_back(one);
      return one.due <= now || one.connection.expired();
    });
  }
  for (Noted& one : due) {
    boost::asio::post(one.loop, [connection = std::move(one.connection)] {
      if (const auto open = connection.lock()) open->recheck();
    });
  }
}

std::size_t Rechecks::noted() const {
  const std::lock_guard lock(mutex_);
  return noted_.size();
}

}  // namespace c10dd::daemon
