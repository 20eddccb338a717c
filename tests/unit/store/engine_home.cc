// SPDX-License-Identifier: Apache-2.0
// The homes: nothing, a temporary directory, a key prefix on a real server.
#include "tests/unit/store/engine_home.h"

#include "tests/unit/temporary_directory.h"
#if C10DD_WITH_REDIS
#include "tests/unit/store/redis_server.h"
#endif

namespace c10dd::store {
namespace {

class MemoryHome final : public EngineHome {
 public:
  std::string url() override { return "memory:"; }
};

class RocksHome final : public EngineHome {
 public:
  std::string url() override { return "rocksdb:" + directory_.path() + "/state"; }

 private:
  TemporaryDirectory directory_;
};

#if C10DD_WITH_REDIS
/// One server for the whole program, one key prefix for each home.
class RedisHome final : public EngineHome {
 public:
  RedisHome() {
    static int homes = 0;
    static RedisServer server;
    url_ = server.url("test" + std::to_string(++homes));
  }
  std::string url() override { return url_; }

 private:
  std::string url_;
};
#endif

}  // namespace

std::unique_ptr<Engine> EngineHome::open() {
  auto engine = open_engine(url());
  if (!engine) throw std::runtime_error(engine.error().detail);
  return std::move(*engine);
}

std::vector<std::string> persistent_engines() {
  std::vector<std::string> names;
  for (const std::string url : {"rocksdb:", "redis:"}) {  // neither URL can be opened
    if (open_engine(url).error().code != Code::unsupported)
      names.push_back(url.substr(0, url.size() - 1));
  }
  return names;
}

std::vector<std::string> built_engines() {
  std::vector<std::string> names = persistent_engines();
  names.insert(names.begin(), "memory");
  return names;
}

std::unique_ptr<EngineHome> make_home(const std::string& engine, std::string& reason) {
  if (engine == "memory") return std::make_unique<MemoryHome>();
  if (engine == "rocksdb") return std::make_unique<RocksHome>();
#if C10DD_WITH_REDIS
  if (RedisServer::installed()) return std::make_unique<RedisHome>();
#endif
  reason = "no redis-server in PATH";
  return nullptr;
}

std::map<Bytes, Bytes> rows_of(Engine& engine, JobNumber job) {
  std::map<Bytes, Bytes> rows;
  const Result<void> loaded = engine.load(job, [&rows](Row row) {
    EXPECT_EQ(row.kind, Row::Kind::put);
    EXPECT_TRUE(rows.empty() || rows.rbegin()->first < row.key) << "keys do not ascend";
    rows.insert_or_assign(std::move(row.key), std::move(row.value));
  });
  EXPECT_TRUE(loaded) << loaded.error().detail;
  return rows;
}

void EngineTest::SetUp() {
  std::string reason;
  home_ = make_home(GetParam(), reason);
  if (!home_) GTEST_SKIP() << reason;
  engine_ = home_->open();
}

void EngineTest::reopen() {
  engine_.reset();
  engine_ = home_->open();
}

}  // namespace c10dd::store
