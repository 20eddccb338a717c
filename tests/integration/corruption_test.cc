// SPDX-License-Identifier: Apache-2.0
// Random damage to any file of a state directory: the engine refuses to open, naming what is
// wrong and changing nothing, or every acknowledged row is there with its value. It never starts
// with fewer.
// C10DD_DAMAGES=300 sets the number, C10DD_SEED=n where to begin, C10DD_BYTES=n the size of a
// value (32 MiB of rows make RocksDB write a table by itself). Each damage has its own seed, which
// a failure prints.
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <random>
#include <thread>

#include "store/rocks/high_water.h"
#include "tests/unit/store/state_home.h"

namespace c10dd::store {
namespace {

std::uint64_t setting(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

/// Damages one file; says what it did.
std::string damage(const fs::path& directory, std::mt19937_64& random) {
  std::vector<std::string> paths;
  for (const auto& [path, bytes] : files_of(directory)) paths.push_back(path);
  const std::string path = paths[random() % paths.size()];
  Bytes bytes = contents(path);
  const std::size_t offset = bytes.empty() ? 0 : random() % bytes.size();
  const std::string where = " of " + path + " at " + std::to_string(offset);
  const auto overwrite = [&](std::size_t count, const auto& value) {
    for (std::size_t at = offset; at < std::min(offset + count, bytes.size()); ++at) {
      bytes[at] = static_cast<char>(value(bytes[at]));
    }
    replace(path, bytes);
  };
  switch (random() % 6) {
    case 0:
      overwrite(1, [&](char c) { return c ^ (1 << random() % 8); });
      return "one bit" + where;
    case 1:
      overwrite(1 + random() % 8, [](char c) { return ~c; });
      return "some bytes" + where;
    case 2:
      overwrite(random() % 2 == 0 ? 512 : 4096, [](char) { return 0; });
      return "a block of zeros" + where;
    case 3:
      overwrite(4096, [&](char) { return random(); });
      return "a block of noise" + where;
    case 4:
      fs::resize_file(path, offset);
      return "the end" + where;
    default:
      fs::remove(path);
      return "the whole" + where;
  }
}

class Corruption : public testing::Test {
 protected:
  /// Rows in tables and in the log, some replaced; three ways to be left.
  void SetUp() override {
    const std::size_t bytes = setting("C10DD_BYTES", 300);
    StateHome home(directory_.path() + "/state");
    for (int start = 0; start < 3; ++start) home.write_and_close(30, bytes);
    images_.push_back(copy(home, home.path(), "closed"));
    auto engine = home.open();
    ASSERT_TRUE(engine) << engine.error().detail;
    home.write(**engine, 30, bytes);
    const std::string checkpoint = directory_.path() + "/checkpoint";
    ASSERT_TRUE((*engine)->checkpoint(checkpoint));
    images_.push_back(copy(home, checkpoint, "restored"));
    home.write(**engine, 30, bytes);
    wait_for_mark(home);
    images_.push_back(copy(home, home.path(), "killed"));
  }

  StateHome copy(const StateHome& of, const fs::path& from, const std::string& name) const {
    StateHome image(directory_.path() + "/" + name);
    fs::remove_all(image.path());
    fs::copy(from, image.path(), fs::copy_options::recursive);
    image.acknowledged = of.acknowledged;
    return image;
  }

  /// A kill is covered up to the last mark, which follows within 200 ms.
  static void wait_for_mark(const StateHome& home) {
    HighWaterMark last;
    for (int quiet = 0; quiet < 5;) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      const HighWaterMark now = HighWaterFile::open(home.path())->mark();
      quiet = now == last ? quiet + 1 : 0;
      last = now;
    }
  }

  TemporaryDirectory directory_;
  std::vector<StateHome> images_;
};

TEST_F(Corruption, NeverStartsWithFewerAcknowledgedRows) {
  const std::uint64_t first = setting("C10DD_SEED", 1);
  const std::uint64_t count = setting("C10DD_DAMAGES", 40);
  std::map<std::string, int> outcomes;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    std::mt19937_64 random(seed);
    const StateHome& image = images_[random() % images_.size()];
    StateHome home = copy(image, image.path(), "damaged");
    const std::string what =
        damage(home.path(), random) + " (" + image.path().filename().string() + ")";
    SCOPED_TRACE("C10DD_SEED=" + std::to_string(seed) + " C10DD_DAMAGES=1: " + what);
    const auto before = files_of(home.path());
    const auto engine = home.open();
    if (!engine) {
      const Code code = engine.error().code;
      ++outcomes["refused as " + std::string(name_of(code))];
      EXPECT_TRUE(code == Code::malformed || code == Code::state_rolled_back ||
                  code == Code::version_unsupported)
          << name_of(code) << ": " << engine.error().detail;
      EXPECT_NE(engine.error().detail.find(home.path()), std::string::npos)
          << engine.error().detail;
      for (const auto& [path, bytes] : before) {
        if (!path.ends_with("c10dd.lock")) {
          EXPECT_TRUE(contents(path) == bytes) << path << " was changed by the refusal";
        }
      }
      continue;
    }
    const auto state = read_state(**engine, home.acknowledged);
    if (!state) {
      ++outcomes["detected on load"];
      EXPECT_EQ(state.error().code, Code::malformed) << state.error().detail;
      continue;
    }
    ++outcomes["nothing lost"];
    EXPECT_TRUE(*state == home.acknowledged) << "started with other rows than were acknowledged";
  }
  for (const auto& [outcome, times] : outcomes) std::cout << times << " " << outcome << "\n";
  if (count >= 40) {
    EXPECT_GE(outcomes.size(), 3u) << "the damages are not what they were";
  }
}

}  // namespace
}  // namespace c10dd::store
