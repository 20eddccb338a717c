// SPDX-License-Identifier: Apache-2.0
// One write for each line, so that those of several ranks do not mix.
#include "client/internal/announcer.h"

#include <unistd.h>

#include <string_view>
#include <utility>

#include "protocol/wording.h"

namespace c10dd::client {
namespace {

constexpr char kVariable[] = "C10DD_LOG";

void write_line(const std::string& text) {
  const std::string line = "c10dd: " + text + "\n";
  // A closed stderr is no error of the program.
  static_cast<void>(!write(STDERR_FILENO, line.data(), line.size()));
}

}  // namespace

Connection::Announce announcer(std::string daemon, const Environment& environment,
                               std::function<void(const ConnectionChange&)> on_connection) {
  const char* const log = environment(kVariable);
  const bool aloud = log == nullptr || std::string_view(log) != "off";
  return [daemon = std::move(daemon), aloud, tell = std::move(on_connection)](
             const Announcement& announced, const std::string& absence) {
    if (aloud && announced.to_people && announced.connected) {
      write_line("connected to the daemon at " + daemon + " after " + human(announced.away));
    } else if (aloud && announced.to_people) {
      write_line(absence + "; trying on (" + kVariable + "=off silences this)");
    }
    if (tell) tell({announced.connected, daemon, absence, announced.away});
  };
}

}  // namespace c10dd::client
