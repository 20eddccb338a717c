// SPDX-License-Identifier: Apache-2.0
// Opens the store that a URL names.
#include "client/client.h"
#include "client/internal/throw_failure.h"
#include "client/stores/remote_store.h"
#include "protocol/format.h"
#include "protocol/utf8.h"

namespace c10dd {
namespace {

constexpr std::size_t kUrlTextBytes = 200;
constexpr std::chrono::seconds kPatience{30};  // with the server of another project

/// Keeps the client alive while its store is used.
struct Owned {
  std::shared_ptr<Client> client;
  std::shared_ptr<Store> store;
};

}  // namespace

std::shared_ptr<Store> open_store(const std::string& url) {
  const std::string file = "file://";
  if (url == "hash:") return make_hash_store();
  if (url.starts_with(file + "/")) return make_file_store(url.substr(file.size()));
  if (url.starts_with("c10dd://")) {
    const auto owned = std::make_shared<Owned>();
    owned->client = Client::connect(url);
    owned->store = owned->client->store();
    return {owned, owned->store.get()};
  }
  if (client::is_remote_store(url)) return client::open_remote_store(url, kPatience);
  client::throw_failure(
      failure(Code::invalid_argument,
              "unknown store URL \"{}\": use c10dd://host:port/job, {}file:///path or \"hash:\"",
              printable(url, kUrlTextBytes), client::remote_store_forms()));
}

}  // namespace c10dd
