// SPDX-License-Identifier: Apache-2.0
// The stores that a server of another project keeps.
#pragma once

#include <memory>
#include <string>

#include "client/store.h"
#include "client/stores/store_server.h"

namespace c10dd::client {

/// Returns a store on this server. Calls without a time-out take at most default_timeout().
std::shared_ptr<Store> make_remote_store(std::unique_ptr<StoreServer> server);

/// Returns whether the URL has the scheme of a StoreServer.
bool is_remote_store(const std::string& url);

/// Opens the store that such a URL names. Tries to reach the server for `patience`. Blocks and
/// throws as open_store() does.
std::shared_ptr<Store> open_remote_store(const std::string& url, Store::Timeout patience);

/// Returns the forms of these URLs, for texts, each with ", " behind it.
std::string remote_store_forms();

}  // namespace c10dd::client
