// SPDX-License-Identifier: Apache-2.0
// A fixture: a store on a fake server, which must have no connection when the store is gone.
#pragma once

#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <string>
#include <utility>

#include "client/store.h"
#include "client/stores/remote_store.h"
#include "tests/unit/comes_true.h"
#include "tests/unit/fake_server.h"

namespace c10dd::test {

class ForeignLinks : public testing::Test {
 protected:
  /// The URL of the store is `scheme`, the address of the server, and `path`.
  ForeignLinks(std::string scheme, std::string path, FakeServer::Take take, FakeServer::Good good)
      : scheme_(std::move(scheme)),
        path_(std::move(path)),
        server_(std::move(take), std::move(good)),
        store_(open(server_)) {}
  void TearDown() override {
    store_.reset();
    EXPECT_TRUE(comes_true([&] { return server_.open_connections() == 0; })) << "one is left";
  }

  std::shared_ptr<Store> open(const FakeServer& server) const {
    const std::chrono::seconds patience(60);
    auto store = client::open_remote_store(scheme_ + server.address() + path_, patience);
    store->set_default_timeout(patience);
    return store;
  }
  /// Returns whether a call on another thread ends, which has longer than that.
  template <class T>
  static bool ends(std::future<T>& call) {
    return call.wait_for(std::chrono::seconds(30)) == std::future_status::ready;
  }

 private:
  const std::string scheme_;
  const std::string path_;

 protected:
  FakeServer server_;
  std::shared_ptr<Store> store_;
};

}  // namespace c10dd::test
