// SPDX-License-Identifier: Apache-2.0
#include "client/ctl/arguments.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "protocol/format.h"
#include "protocol/nearest.h"
#include "protocol/utf8.h"

namespace c10dd::ctl {
namespace {

constexpr std::size_t kShown = 120;  // bytes of a word in an error
constexpr std::string_view kList = "; c10ddctl --help lists the commands and options";

struct Command {
  std::string_view name;
  std::vector<std::string_view> operands;
  std::string_view sentence;
};

const std::vector<Command>& all_commands() {
  static const std::vector<Command> commands = {
      {"status", {}, "say of each daemon whether it serves, and what it promises"},
      {"daemons", {}, "list the daemons that share an engine, and how many runs each owns"},
      {"jobs", {}, "list all jobs with their owners, keys, sessions and blocked requests"},
      {"job", {"NAME"}, "show the runs of a job: who has joined, who waits for what"},
      {"move", {"NAME", "HOST:PORT"}, "move a job to another daemon, on a daemon's machine"},
  };
  return commands;
}

Failure refused(std::string text) { return failure(Code::invalid_argument, "{}{}", text, kList); }

std::string quoted_word(std::string_view word) { return '"' + printable(word, kShown) + '"'; }

std::string meant(std::string_view word, const std::vector<std::string>& known) {
  const std::string near = nearest(word, known);
  return near.empty() ? "" : "; did you mean \"" + near + "\"?";
}

std::string help() {
  std::string text =
      "Asks c10dd daemons about their jobs, and moves jobs between them.\n"
      "Usage: c10ddctl [OPTIONS] COMMAND\n"
      "\n"
      "Commands:\n";
  for (const Command& command : all_commands()) {
    std::string line = "  " + std::string(command.name);
    for (const std::string_view operand : command.operands) line.append(" ").append(operand);
    line.resize(std::max<std::size_t>(line.size() + 1, 24), ' ');
    text.append(line).append(command.sentence).append("\n");
  }
  return text +
         "\n"
         "Options:\n"
         "  --daemon HOST:PORT[,HOST:PORT...]\n"
         "                        addresses of daemons; the first that answers is asked.\n"
         "                        default C10DD_URL, C10DD_ADDR, else 127.0.0.1:29500\n"
         "  --timeout SECONDS     how long to wait for the reply of a daemon; default 10\n"
         "  -o, --output FORM     table or json; default table\n"
         "  -h, --help            print this help and exit\n"
         "  --version             print the version and exit\n"
         "\n"
         "Example: c10ddctl --daemon head1:29500,head2:29500 jobs\n";
}

/// Reads HOST:PORT, a list of them, or a URL with or without a job.
Result<std::vector<client::HostPort>> read_daemons(std::string_view from, std::string text) {
  constexpr std::string_view kScheme = "c10dd://";
  if (!text.starts_with(kScheme) && text.find("://") != std::string::npos) {
    return failure(Code::invalid_argument, "{} is {}: write HOST:PORT, for example head1:29500",
                   from, quoted_word(text));
  }
  if (!text.starts_with(kScheme)) text = std::string(kScheme) + text;
  const std::size_t slash = text.find('/', kScheme.size());
  const Result<client::Url> url = client::parse_url(text.substr(0, slash) + "/any");
  if (!url) return failure(Code::invalid_argument, "{}: {}", from, url.error().detail);
  return url->daemons;
}

Result<std::vector<client::HostPort>> find_daemons(const std::string& option,
                                                   const client::Environment& environment) {
  if (!option.empty()) return read_daemons("--daemon", option);
  for (const char* const name : {"C10DD_URL", "C10DD_ADDR"}) {
    const char* const text = environment(name);
    if (text != nullptr && *text != '\0') return read_daemons(name, text);
  }
  return std::vector<client::HostPort>{{"127.0.0.1", client::kDefaultPort}};
}

Result<std::chrono::milliseconds> read_timeout(const std::string& text) {
  double seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  const bool is_number = error == std::errc() && end == text.data() + text.size();
  if (!is_number || !(seconds >= 0.1 && seconds <= 3600)) {
    return refused(format("--timeout is {}: expected seconds, 0.1 to 3600", quoted_word(text)));
  }
  return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
}

/// Checks the command and the number of its operands.
Result<void> check(const Arguments& of) {
  std::vector<std::string> known;
  for (const Command& command : all_commands()) {
    known.emplace_back(command.name);
    if (command.name != of.command) continue;
    if (of.operands.size() == command.operands.size()) return {};
    std::string usage(command.name);
    for (const std::string_view operand : command.operands) usage.append(" ").append(operand);
    return refused(format("wrong number of operands; write c10ddctl {}", usage));
  }
  if (of.command.empty()) return refused("no command was given");
  return refused(format("unknown command {}{}", quoted_word(of.command), meant(of.command, known)));
}

/// The values of the options as text.
struct Words {
  std::string daemon;
  std::string timeout = "10";
  std::string output = "table";
};

}  // namespace

Result<Parsed> parse(const std::vector<std::string>& words,
                     const client::Environment& environment) {
  Parsed parsed;
  Arguments& out = parsed.arguments;
  Words given;
  const std::array<std::pair<std::string_view, std::string*>, 4> options{
      {{"--daemon", &given.daemon},
       {"--timeout", &given.timeout},
       {"--output", &given.output},
       {"-o", &given.output}}};
  bool only_operands = false;
  for (std::size_t at = 0; at < words.size(); ++at) {
    const std::string& word = words[at];
    if (only_operands || !word.starts_with('-') || word == "-") {
      if (out.command.empty())
        out.command = word;
      else
        out.operands.push_back(word);
      continue;
    }
    if (word == "--") {
      only_operands = true;
      continue;
    }
    const std::size_t equals = word.starts_with("--") ? word.find('=') : std::string::npos;
    const std::string name = word.substr(0, equals);
    if (name == "-h" || name == "--help") return Parsed{{}, help()};
    if (name == "--version") return Parsed{{}, format("c10ddctl {}\n", C10DD_VERSION)};
    const auto* const option =
        std::ranges::find(options, name, &decltype(options)::value_type::first);
    if (option == options.end()) {
      return refused(
          format("unknown option {}{}", quoted_word(name),
                 meant(name, {"--daemon", "--timeout", "--output", "--help", "--version"})));
    }
    if (equals == std::string::npos && at + 1 == words.size()) {
      return refused(format("{} needs a value", name));
    }
    *option->second = equals == std::string::npos ? words[++at] : word.substr(equals + 1);
  }
  if (given.output != "table" && given.output != "json") {
    return refused(format("--output is {}: expected table or json", quoted_word(given.output)));
  }
  out.json = given.output == "json";
  const auto timeout = read_timeout(given.timeout);
  if (!timeout) return timeout.error();
  out.timeout = *timeout;
  auto daemons = find_daemons(given.daemon, environment);
  if (!daemons) return daemons.error();
  out.daemons = std::move(*daemons);
  if (const Result<void> good = check(out); !good) return good.error();
  return parsed;
}

}  // namespace c10dd::ctl
