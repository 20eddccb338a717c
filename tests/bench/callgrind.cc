// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/callgrind.h"

#include <cstdlib>
#include <fstream>
#include <map>
#include <stdexcept>
#include <utility>

namespace c10dd::bench {
namespace {

/// Sends a command to the valgrind that runs a process. The program vgdb belongs to valgrind.
void tell(pid_t process, const std::string& word) {
  const std::string command = "vgdb --pid=" + std::to_string(process) + " " + word;
  if (std::system((command + " >/dev/null 2>&1").c_str()) != 0) {
    throw std::runtime_error("\"" + command + "\" has failed; is valgrind installed?");
  }
}

bool is_cost(const std::string& line) { return !line.empty() && line[0] >= '0' && line[0] <= '9'; }

std::uint64_t cost_of(const std::string& line) {
  const std::size_t space = line.find(' ');
  if (space == std::string::npos) throw std::runtime_error("callgrind: not a cost: " + line);
  return std::stoull(line.substr(space + 1));
}

}  // namespace

std::vector<FunctionCost> read_costs(std::istream& profile) {
  std::map<std::pair<std::string, std::string>, std::uint64_t> costs;
  std::string library;
  std::string function;
  bool is_call = false;  // the next cost is the cost of a call, which is not the caller's own
  for (std::string line; std::getline(profile, line);) {
    if (line.starts_with("ob=")) {
      library = line.substr(line.rfind('/') == std::string::npos ? 3 : line.rfind('/') + 1);
    } else if (line.starts_with("fn=")) {
      function = line.substr(3);
    } else if (line.starts_with("calls=")) {
      is_call = true;
    } else if (is_cost(line) && !std::exchange(is_call, false)) {
      costs[{library, function}] += cost_of(line);
    }
  }
  std::vector<FunctionCost> out;
  for (const auto& [name, cost] : costs) out.push_back({name.first, name.second, cost});
  return out;
}

std::vector<std::string> Callgrind::command() const {
  return {"valgrind",
          "--tool=callgrind",
          "--quiet",
          "--compress-strings=no",
          "--compress-pos=no",
          "--log-file=" + file() + ".log",
          "--callgrind-out-file=" + file()};
}

void Callgrind::zero(pid_t process) const { tell(process, "zero"); }

std::vector<FunctionCost> Callgrind::take(pid_t process) {
  tell(process, "dump");
  std::ifstream profile(file() + "." + std::to_string(++taken_));
  if (!profile) throw std::runtime_error("callgrind has written no profile");
  return read_costs(profile);
}

}  // namespace c10dd::bench
