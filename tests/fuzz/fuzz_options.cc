// SPDX-License-Identifier: Apache-2.0
// Lines of arguments, an empty line, then the file of --config: options or exit code 64 with a
// word why; what --print-config prints is a file that gives the same options.
#include <iostream>
#include <sstream>
#include <vector>

#include "daemon/config/options.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/scratch_file.h"
#include "tests/fuzz/target.h"

namespace {

using c10dd::daemon::ParsedOptions;

struct Run {
  ParsedOptions parsed;
  std::string out;
  std::string err;
};

Run run(const std::vector<std::string>& arguments) {
  std::vector<const char*> argv{"c10dd"};
  for (const std::string& argument : arguments) argv.push_back(argument.c_str());
  std::ostringstream out;
  std::ostringstream err;
  std::streambuf* const cout = std::cout.rdbuf(out.rdbuf());
  std::streambuf* const cerr = std::cerr.rdbuf(err.rdbuf());
  ParsedOptions parsed = c10dd::daemon::parse_options(static_cast<int>(argv.size()), argv.data());
  std::cout.rdbuf(cout);
  std::cerr.rdbuf(cerr);
  return {std::move(parsed), out.str(), err.str()};
}

}  // namespace

C10DD_FUZZ(options) {
  static c10dd::fuzz::ScratchFile file;
  std::string_view rest = c10dd::fuzz::Input(data, size).rest();
  std::vector<std::string> arguments;
  while (!rest.empty()) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    if (line.empty()) {
      file.write(rest);
      arguments.push_back("--config=" + file.path());
      break;
    }
    arguments.push_back(std::string(line).c_str());
    // Another file than this one might never end.
    if (arguments.back().find("config") != std::string::npos) arguments.pop_back();
  }
  const Run first = run(arguments);
  C10DD_ASSERT(first.parsed.exit_code == 0 || first.parsed.exit_code == 64);
  C10DD_ASSERT((first.parsed.exit_code == 64) == first.err.starts_with("c10dd: "));
  if (first.parsed.exit) return 0;
  arguments.push_back("--print-config");
  const Run printed = run(arguments);
  C10DD_ASSERT(printed.parsed.exit && printed.parsed.exit_code == 0);
  file.write(printed.out);
  const Run again = run({"--config", file.path(), "--print-config"});
  C10DD_ASSERT(again.parsed.exit_code == 0 && again.out == printed.out);
  return 0;
}
