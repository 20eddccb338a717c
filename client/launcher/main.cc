// SPDX-License-Identifier: Apache-2.0
// main() of c10drun: starts the workers of this node, forms a group with the agents of the other
// nodes, and restarts all workers when one fails or a node joins or leaves. docs/c10drun.md has the
// rules and the exit codes.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "client/launcher/agent.h"
#include "client/launcher/console.h"
#include "client/launcher/init.h"
#include "client/launcher/output.h"
#include "client/launcher/program.h"
#include "client/launcher/signals.h"
#include "protocol/exit_codes.h"
#include "protocol/format.h"

extern char** environ;

namespace c10dd::run {
namespace {

std::map<std::string, std::string> inherited_environment() {
  std::map<std::string, std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const std::size_t equals = text.find('=');
    if (equals != std::string::npos) all.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return all;
}

/// Opens /dev/null in place of each closed standard stream (descriptors 0 to 2). Otherwise a file
/// that is opened later would get the number of that stream.
void open_standard_streams() {
  for (int fd = open("/dev/null", O_RDWR); fd >= 0 && fd <= STDERR_FILENO;) fd = dup(fd);
}

std::string make_scratch() {
  const char* base = std::getenv("TMPDIR");
  std::string path =
      std::string(base == nullptr || *base == '\0' ? "/tmp" : base) + "/c10drun-XXXXXX";
  if (mkdtemp(path.data()) == nullptr) {
    throw Fatal(exit_code::kCannotCreate,
                format("cannot create folder {}: {}", path, client::error_text(errno)));
  }
  return path;
}

void make_log_folder(const std::string& path) {
  std::error_code error;
  if (!path.empty()) std::filesystem::create_directories(path, error);
  if (error) {
    throw Fatal(exit_code::kCannotCreate,
                format("cannot create --log-dir {}: {}", path, error.message()));
  }
}

int launch(Options options) {
  const auto inherited = inherited_environment();
  const auto path = inherited.find("PATH");
  const std::string program =
      find_program(options.command.front(), path == inherited.end() ? "" : path->second);
  if (!options.script.empty()) check_script(options.script);
  make_log_folder(options.log_dir);
  const std::string scratch = make_scratch();
  OrphanKiller orphan_killer(
      scratch);  // the constructor forks: it must run before any thread is started
  raise_file_limit(std::size_t{options.nproc} * 6 + 64);
  Console console(options.prefix, options.console);
  auto agent = std::make_unique<Agent>(std::move(options), program, inherited, scratch,
                                       orphan_killer, console);
  int code = exit_code::kBug;
  try {
    code = agent->run();
  } catch (const Fatal& fatal) {
    console.note(fatal.what());
    code = fatal.code();
  } catch (const std::exception& error) {
    console.note(std::string("unexpected error: ") + error.what());
  }
  if (!agent->idle()) {  // a blocking call in the background still uses the agent
    agent->end_processes();
    console.finish();
    std::_Exit(code);
  }
  agent.reset();
  console.finish();
  return code;
}

int run(int argc, char** argv) {
  open_standard_streams();
  prepare_signals();
  try {
    become_child_of_init();
    ParsedOptions parsed = parse_options(argc, argv, client::process_environment());
    if (!parsed.reply.empty()) {
      std::fputs(parsed.reply.c_str(), stdout);
      return 0;
    }
    return launch(std::move(parsed.options));
  } catch (const Fatal& fatal) {
    std::fprintf(stderr, "c10drun: %s\n", note_text(fatal.what()).c_str());
    return fatal.code();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "c10drun: unexpected error: %s\n", error.what());
    return exit_code::kBug;
  }
}

}  // namespace
}  // namespace c10dd::run

int main(int argc, char** argv) { return c10dd::run::run(argc, argv); }
