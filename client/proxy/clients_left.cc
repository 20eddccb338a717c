// SPDX-License-Identifier: Apache-2.0
#include "client/proxy/clients_left.h"

#include "client/internal/boot_time.h"
#include "client/internal/caller.h"
#include "client/internal/throw_failure.h"
#include "protocol/format.h"
#include "protocol/wording.h"

namespace c10dd::proxy {

void ClientsLeft::set(bool all_left) {
  {
    const std::lock_guard lock(mutex_);
    all_left_ = all_left;
  }
  changed_.notify_all();
}

void ClientsLeft::close() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  changed_.notify_all();
}

void ClientsLeft::wait(Duration limit) {
  using client::Waited;
  std::unique_lock lock(mutex_);
  const Waited waited = client::wait_until(lock, changed_, client::boot_time() + limit,
                                           [this] { return all_left_ || closed_; });
  if (waited == Waited::ended_by_caller) client::throw_failure(client::ended_by_caller());
  if (waited == Waited::late) {
    client::throw_failure(
        failure(Code::timed_out, "the proxy: its clients have not left within {}", human(limit)));
  }
  if (closed_) client::throw_failure(failure(Code::closed, "the proxy was closed"));
}

}  // namespace c10dd::proxy
