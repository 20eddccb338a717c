// SPDX-License-Identifier: Apache-2.0
// Any bytes as a configuration file: entries or a refusal with its line; and any text written as a
// TOML string is read back as the same.
#include "daemon/config/config_file.h"
#include "protocol/utf8.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/scratch_file.h"
#include "tests/fuzz/target.h"

C10DD_FUZZ(config_file) {
  namespace daemon = c10dd::daemon;
  static c10dd::fuzz::ScratchFile file;
  const std::string_view bytes = c10dd::fuzz::Input(data, size).rest();
  file.write(bytes);
  const auto entries = daemon::read_config(file.path());
  if (!entries) {
    C10DD_ASSERT(entries.error().detail.starts_with("config " + file.path() + ":"));
    C10DD_ASSERT(c10dd::is_utf8(entries.error().detail));
  }
  if (!c10dd::is_utf8(bytes)) {
    C10DD_ASSERT(!entries);
    return 0;
  }
  const std::string text(bytes);
  file.write("key = " + daemon::toml_string(text) + "\n");
  const auto again = daemon::read_config(file.path());
  C10DD_ASSERT(again && again->size() == 1 && again->front().text == text);
  return 0;
}
