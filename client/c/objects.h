// SPDX-License-Identifier: Apache-2.0
// The objects behind the handles of the C interface.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <utility>

#include "client/c/handles.h"
#include "client/client.h"
#include "client/internal/url.h"
#include "client/proxy/proxy.h"

namespace c10dd::c {

struct ClientObject final : Object {
  static constexpr const char* kName = "client";
  ClientObject(std::shared_ptr<Client> connected, client::Url at, std::int64_t own_rank,
               std::int64_t size, Credentials shown)
      : client(std::move(connected)),
        url(std::move(at)),
        rank(own_rank),
        world_size(size),
        credentials(std::move(shown)) {}
  void close() override { client->close(); }
  bool is_used_by_others() const override { return true; }
  const std::shared_ptr<Client> client;
  const client::Url url;
  const std::int64_t rank;  ///< this and the next: -1 if not known
  const std::int64_t world_size;
  const Credentials credentials;  ///< ClientOptions::credentials, also of its proxies
};

struct WatchObject final : Object {
  static constexpr const char* kName = "watch";
  explicit WatchObject(KeyWatch opened) : watch(std::move(opened)) {}
  /// KeyWatch::next(). Throws InvalidArgument while another thread is in this call.
  WatchBatch next(Duration timeout);
  void close() override { watch.cancel(); }
  KeyWatch watch;
  std::mutex busy;
};

/// Counts the changes of the group's state, so that a caller can wait for the next one.
struct MembershipObject final : Object {
  static constexpr const char* kName = "membership";
  explicit MembershipObject(std::shared_ptr<Membership> joined);
  void close() override;

  const std::shared_ptr<Membership> membership;
  std::mutex mutex;
  std::condition_variable changed;
  std::uint64_t changes = 0;
  bool closed = false;
  std::shared_ptr<void> listening;  // last: its end waits for a running call of the listener
};

struct ProxyObject final : Object {
  static constexpr const char* kName = "proxy";
  explicit ProxyObject(proxy::ProxySettings settings) : proxy(std::move(settings)) {}
  proxy::Proxy proxy;
};

}  // namespace c10dd::c
