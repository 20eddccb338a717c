// SPDX-License-Identifier: Apache-2.0
// A RocksDB state directory for tests of recovery: acknowledged rows, and damage to its files.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "store/engine.h"
#include "tests/unit/temporary_directory.h"

namespace c10dd::store {

namespace fs = std::filesystem;

inline Bytes contents(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void replace(const fs::path& path, const Bytes& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

/// Inverts `count` bytes from `offset` on.
inline void flip(const fs::path& path, std::size_t offset, std::size_t count) {
  Bytes bytes = contents(path);
  ASSERT_LT(offset, bytes.size()) << path;
  for (std::size_t at = offset; at < std::min(offset + count, bytes.size()); ++at) {
    bytes[at] = static_cast<char>(~bytes[at]);
  }
  replace(path, bytes);
}

/// Returns the content of all files below a directory, by path.
inline std::map<std::string, Bytes> files_of(const fs::path& directory) {
  std::map<std::string, Bytes> files;
  for (const auto& entry : fs::recursive_directory_iterator(directory)) {
    if (entry.is_regular_file()) files[entry.path()] = contents(entry.path());
  }
  return files;
}

/// The rows that acknowledged commits have written, by job and key.
using State = std::map<JobNumber, std::map<Bytes, Bytes>>;

/// Fails if any row of any job cannot be read.
inline Result<State> read_state(Engine& engine, const State& expected) {
  State state;
  for (const auto& [job, rows] : expected) {
    auto& found = state[job];
    Result<void> loaded =
        engine.load(job, [&](Row row) { found[std::move(row.key)] = std::move(row.value); });
    if (!loaded) return loaded.error();
  }
  return state;
}

class StateHome {
 public:
  explicit StateHome(std::string path) : path_(std::move(path)) {}

  Result<std::unique_ptr<Engine>> open(OpenOptions options = {}) const {
    return open_engine("rocksdb:" + path_.string(), options);
  }

  /// Commits `batches` for each of three jobs, one change and about `bytes` bytes each, one commit
  /// per round; keys repeat. Returns only what was reported durable.
  void write(Engine& engine, std::size_t batches, std::size_t bytes = 100) {
    std::map<JobNumber, Claim> claims;
    for (const JobNumber job : {1, 2, 300}) {
      claims[job] = engine.claim(job).value();
      acknowledged[job];
    }
    for (std::size_t n = 0; n < batches; ++n) {
      std::vector<JobBatch> round;
      for (auto& [job, claim] : claims) {
        const Bytes key = "key" + std::to_string(++keys_ % 500);
        const Bytes value = std::to_string(keys_) + Bytes(bytes, static_cast<char>(keys_));
        round.push_back(
            {job, claim.epoch, claim.revision, claim.revision + 1, {{Row::Kind::put, key, value}}});
        ++claim.revision;
      }
      const std::vector<Outcome> outcomes = engine.commit(round);
      for (std::size_t at = 0; at < round.size(); ++at) {
        ASSERT_EQ(outcomes[at], Outcome::durable);
        const Row row = round[at].rows[0];
        acknowledged[round[at].job][row.key] = row.value;
      }
    }
  }

  void write_and_close(std::size_t batches, std::size_t bytes = 100) {
    auto engine = open();
    ASSERT_TRUE(engine) << engine.error().detail;
    write(**engine, batches, bytes);
  }

  /// The newest file of rows/ whose name has this part: ".log", ".sst", "MANIFEST", "CURRENT".
  fs::path file(const std::string& part) const {
    fs::path newest;
    for (const auto& entry : fs::directory_iterator(path_ / "rows")) {
      const std::string name = entry.path().filename();
      if (name.find(part) == std::string::npos || name == "LOG") continue;
      if (newest.empty() || entry.path() > newest) newest = entry.path();
    }
    return newest;
  }

  const fs::path& path() const { return path_; }
  fs::path high_water() const { return path_ / "highwater"; }

  State acknowledged;

 private:
  fs::path path_;
  std::size_t keys_ = 0;
};

}  // namespace c10dd::store
