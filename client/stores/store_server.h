// SPDX-License-Identifier: Apache-2.0
// StoreServer: a server of another project that keeps a store, such as Redis. StoreModule: the
// interface of a module with such a server. To add one, derive from StoreServer in
// client/stores/<name>/, build a module (CMakeLists.txt), and add a line to kSchemes in
// remote_schemes.cc. tests/unit/client/store_contract_test.cc has the contract.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "client/internal/module_loader.h"
#include "protocol/error.h"
#include "protocol/server_url.h"

namespace c10dd::client {

using Clock = std::chrono::steady_clock;

/// How long a call may take.
struct Limit {
  Clock::time_point end;
  bool waits = false;  ///< wait until `end` for what is missing, instead of looking once
};

/// What was found under some keys.
struct Found {
  std::vector<std::string> values;   ///< complete if no key is missing
  std::vector<std::string> missing;  ///< the keys that did not exist when the call ended
};

/// Each function makes one call of Store, whose contract it keeps, after RemoteStore has checked
/// the arguments. It blocks up to Limit::end, and at least for one attempt. A read is repeated if
/// the connection is lost. A change fails with
///   timed_out        if the server was not reached: nothing was changed
///   outcome_unknown  if the connection was lost before the reply came
/// What the server cannot do fails with unsupported, and the text names a store that can.
/// Thread-safe.
class StoreServer {
 public:
  using Keys = std::vector<std::string>;

  virtual ~StoreServer() = default;

  /// If the limit has passed, returns normally with the missing keys. wait() returns no values.
  virtual Result<Found> get(const Keys& keys, Limit limit) = 0;
  virtual Result<Found> wait(const Keys& keys, Limit limit) = 0;

  virtual Result<void> set(const Keys& keys, const Keys& values, Limit limit) = 0;
  virtual Result<std::int64_t> add(const std::string& key, std::int64_t delta, Limit limit) = 0;
  virtual Result<std::uint64_t> append(const std::string& key, std::string_view value,
                                       Limit limit) = 0;
  virtual Result<std::string> compare_set(const std::string& key, const std::string& expected,
                                          const std::string& desired, Limit limit) = 0;
  virtual Result<bool> remove(const std::string& key, Limit limit) = 0;
  virtual Result<std::uint64_t> remove_prefix(const std::string& prefix, Limit limit) = 0;
  virtual Result<Keys> list(const std::string& prefix, Limit limit) = 0;
  virtual Result<std::uint64_t> count(const std::string& prefix, Limit limit) = 0;

  virtual Result<std::uint64_t> queue_push(const std::string& key, std::string_view value,
                                           Limit limit) = 0;
  /// Returns nothing if the limit has passed and the queue is empty.
  virtual Result<std::optional<std::string>> queue_pop(const std::string& key, Limit limit) = 0;
  virtual Result<std::uint64_t> queue_length(const std::string& key, Limit limit) = 0;
};

/// What a module needs to open a StoreServer.
struct StoreSetup {
  ServerUrl url;          ///< checked by the rules of its scheme; has a port
  Clock::time_point end;  ///< until when to try to reach the server
};

/// Version of the interface between a module and open_store(). Increase it after a change of a type
/// that both share.
inline constexpr std::uint32_t kStoreAbi = 1;

/// Describes a module. Each module exports c10dd_store_module(), which returns its head.
struct StoreModule {
  ModuleHead head = {.abi = kStoreAbi, .setup_bytes = sizeof(StoreSetup)};
  /// Reaches the server and logs in. Fails with timed_out if the server was not reached, and with
  /// permission_denied if it refuses the login.
  Result<std::unique_ptr<StoreServer>> (*open)(const StoreSetup& setup) = nullptr;
};

}  // namespace c10dd::client
