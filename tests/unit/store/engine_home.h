// SPDX-License-Identifier: Apache-2.0
// Where an engine under test stores its data. Can open the engine again on these data.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "store/engine.h"

namespace c10dd::store {

class EngineHome {
 public:
  virtual ~EngineHome() = default;

  /// Opens the engine. The previous one must be destroyed before. Throws if it cannot be opened.
  std::unique_ptr<Engine> open();

  virtual std::string url() = 0;
};

/// Names of the engines in this build, and of those that are persistent (all but "memory").
std::vector<std::string> built_engines();
std::vector<std::string> persistent_engines();

/// Names the cases of a suite over engines.
inline std::string engine_name(const testing::TestParamInfo<std::string>& info) {
  return info.param;
}

/// Returns an empty home, or null and a reason if software that the engine needs is not installed.
std::unique_ptr<EngineHome> make_home(const std::string& engine, std::string& reason);

/// Everything that load() yields. Fails the test unless the keys ascend and all rows are puts.
std::map<Bytes, Bytes> rows_of(Engine& engine, JobNumber job);

/// A test body over engines by name.
class EngineTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override;
  void reopen();

  std::unique_ptr<EngineHome> home_;
  std::unique_ptr<Engine> engine_;
};

}  // namespace c10dd::store
