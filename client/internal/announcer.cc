// SPDX-License-Identifier: Apache-2.0
// Writes each line with one call of write(), so that lines of several ranks do not mix.
#include "client/internal/announcer.h"

#include <unistd.h>

#include <string_view>
#include <utility>

#include "protocol/format.h"
#include "protocol/wording.h"

namespace c10dd::client {
namespace {

constexpr char kVariable[] = "C10DD_LOG";

}  // namespace

bool says_on_stderr(const Environment& environment) {
  const char* const log = environment(kVariable);
  return log == nullptr || std::string_view(log) != "off";
}

void say_on_stderr(const std::string& text) {
  const std::string line = "c10dd: " + text + "\n";
  // A closed stderr must not make the program fail, so errors are ignored.
  static_cast<void>(!write(STDERR_FILENO, line.data(), line.size()));
}

Connection::Announce announcer(const Environment& environment,
                               std::function<void(const ConnectionChange&)> on_connection) {
  return [print = says_on_stderr(environment), notify = std::move(on_connection)](
             const Announcement& announced, const std::string& daemon, const std::string& absence) {
    if (print && announced.to_people && announced.connected) {
      say_on_stderr(
          format("connected to the daemon at {} after {}", daemon, human(announced.away)));
    } else if (print && announced.to_people) {
      say_on_stderr(format("{}; still trying ({}=off silences this)", absence, kVariable));
    }
    if (notify) notify({announced.connected, daemon, absence, announced.away});
  };
}

}  // namespace c10dd::client
