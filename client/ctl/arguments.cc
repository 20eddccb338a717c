// SPDX-License-Identifier: Apache-2.0
#include "client/ctl/arguments.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <variant>

#include "client/ctl/command_table.h"
#include "protocol/format.h"
#include "protocol/limits.h"
#include "protocol/names.h"
#include "protocol/nearest.h"
#include "protocol/parse.h"
#include "protocol/utf8.h"

namespace c10dd::ctl {
namespace {

constexpr std::size_t kShown = 120;  // bytes of a word in an error
constexpr std::string_view kList = "; c10ddctl --help lists the commands and options";

const std::vector<Option>& common_options() {
  static const std::vector<Option> options = {
      {"--daemon", "HOST:PORT[,HOST:PORT...]",
       "addresses of daemons; c10ddctl uses the first one that answers;\n"
       "default C10DD_URL, then C10DD_ADDR, then 127.0.0.1:29500",
       &Words::daemon},
      {"--timeout", "SECONDS", "how long to wait for the reply of a daemon; default 10",
       &Words::timeout},
      {"-o,--output", "FORM", "table or json; default table", &Words::output},
  };
  return options;
}

const std::vector<Command>& daemon_commands() {
  static const std::vector<Command> commands = {
      {"status", {}, "show whether each daemon is ready, its engine and its durability"},
      {"daemons", {}, "list the daemons that share an engine, and how many runs each owns"},
      {"jobs", {}, "list all jobs, stuck ones first, with their owners, sessions and diagnoses"},
      {"job", {"NAME"}, "show the runs of a job: which ranks have joined, and what they wait for"},
      {"diagnose",
       {"NAME"},
       "say who holds a job up, and why; exit with 1 if it waits, with 2 if it is stuck",
       {{"--run", "RUN", "show only this run; default all runs of the job", &Words::run},
        {"--watch", "", "print a line for each change until a signal ends c10ddctl",
         &Words::watch}}},
      {"flight",
       {"FILE|FOLDER"},
       "say who holds a job up, from flight records that PyTorch or c10dd has written",
       {},
       true},
      {"move",
       {"NAME", "HOST:PORT"},
       "move a job to another daemon; must run on the machine of a daemon"},
      {"rm",
       {"NAME"},
       "remove a job with all its runs, if nobody is connected to it",
       {{"--idle", "[TIME]",
         "instead of NAME: remove all jobs that have neither sessions nor endpoints;\n"
         "with a TIME such as 30m or 2h, only jobs without sessions for that long",
         &Words::idle}}},
      {"lease",
       {"NAME"},
       "lease a port for PyTorch trainers of a job; print MASTER_ADDR, MASTER_PORT",
       {{"--endpoint", "NAME", "name of the port; the same name renews the lease; default main",
         &Words::endpoint},
        {"--run", "RUN", "the run whose keys the trainers share; default a new run for each launch",
         &Words::run},
        {"--world-size", "N",
         "number of ranks, shown in the status of the job; default 0 (not known)",
         &Words::world_size}}},
  };
  return commands;
}

const std::vector<Command>& all_commands() {
  static const std::vector<Command> commands = [] {
    std::vector<Command> all = daemon_commands();
    all.insert(all.end(), ca_commands().begin(), ca_commands().end());
    return all;
  }();
  return commands;
}

const Command* find_command(std::string_view name) {
  const auto found = std::ranges::find(all_commands(), name, &Command::name);
  return found == all_commands().end() ? nullptr : &*found;
}

Failure refused(std::string text) { return failure(Code::invalid_argument, "{}{}", text, kList); }

std::string quoted_word(std::string_view word) { return '"' + printable(word, kShown) + '"'; }

std::string meant(std::string_view word, const std::vector<std::string>& known) {
  const std::string near = nearest(word, known);
  return near.empty() ? "" : "; did you mean \"" + near + "\"?";
}

std::string usage_of(const Command& command) {
  std::string text(command.name);
  for (const std::string_view operand : command.operands) text.append(" ").append(operand);
  return command.reads_files ? text + "..." : text;
}

constexpr std::size_t kColumn = 24;  // where sentences begin

std::string line_of(std::string left, std::string_view sentence) {
  left = "  " + left;
  left += left.size() + 1 > kColumn ? "\n" + std::string(kColumn, ' ')
                                    : std::string(kColumn - left.size(), ' ');
  for (const char c : sentence) {
    left += c;
    if (c == '\n') left.append(kColumn, ' ');
  }
  return left + "\n";
}

std::string lines_of(const std::vector<Option>& options) {
  std::string text;
  for (const Option& option : options) {
    std::string names(option.names);
    if (const std::size_t comma = names.find(','); comma != std::string::npos) {
      names.insert(comma + 1, " ");
    }
    if (!option.value.empty()) names.append(" ").append(option.value);
    text += line_of(names, option.sentence);
  }
  return text;
}

/// Returns the lines of all commands of a group; of all commands if the name is empty.
std::string commands_of(std::string_view group) {
  std::string text = "\nCommands:\n";
  for (const Command& command : all_commands()) {
    if (command.name.starts_with(group)) text += line_of(usage_of(command), command.sentence);
  }
  return text;
}

std::string help() {
  return "Asks c10dd daemons about their jobs, moves and removes jobs, leases ports, and keeps a "
         "CA.\n"
         "Usage: c10ddctl [OPTIONS] COMMAND\n" +
         commands_of("") + "\nOptions:\n" + lines_of(common_options()) +
         line_of("-h, --help", "print this help, or the help of COMMAND, and exit") +
         line_of("--version", "print the version and exit") +
         "\n"
         "Example: c10ddctl --daemon head1:29500,head2:29500 jobs\n";
}

std::string help_of_group(std::string_view name) {
  return format("Usage: c10ddctl [OPTIONS] {} COMMAND\n{}", name,
                commands_of(std::string(name) + " "));
}

std::string help_of(const Command& command) {
  const std::string own = lines_of(command.options);
  return format("c10ddctl [OPTIONS] {}: {}\n\nOptions:\n{}{}", usage_of(command), command.sentence,
                own, lines_of(common_options()));
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

/// The command line as CLI11 reads it. Words that it does not know are left to check().
class Line {
 public:
  Line() {
    app_.set_help_flag();
    app_.allow_extras();
    app_.require_subcommand(0, 1);
    app_.add_flag("-h,--help", words.help);
    app_.add_flag("--version", words.version);
    add(app_, common_options());
    for (const Command& one : all_commands()) {
      const std::size_t space = one.name.find(' ');
      CLI::App& in = space == one.name.npos ? app_ : group(one.name.substr(0, space));
      add(add_to(in, one.name.substr(space + 1)), one.options);  // npos + 1 is 0
    }
  }

  /// Fails with invalid_argument if an option has no value.
  Result<void> parse(std::vector<std::string> arguments) {
    std::ranges::reverse(arguments);  // as CLI11 wants them
    try {
      app_.parse(arguments);
    } catch (const CLI::ParseError& error) {
      const std::string text = error.what();
      const std::string name = text.substr(0, text.find(':'));
      if (text.find("required") == std::string::npos) return refused(text);
      const bool repeated = text.find("At Most") != std::string::npos;
      return refused(name + (repeated ? " is given more than once" : " needs a value"));
    }
    for (const CLI::App* at = &app_; !at->get_subcommands().empty();) {
      at = at->get_subcommands().front();
      command += (command.empty() ? "" : " ") + at->get_name();
    }
    operands = app_.remaining(true);
    return {};
  }

  /// Returns the names of all options that may stand here.
  std::vector<std::string> known_options() const {
    std::vector<std::string> names = {"--help", "--version"};
    const auto take = [&](const std::vector<Option>& options) {
      for (const Option& option : options) {
        names.emplace_back(option.names.substr(option.names.find("--")));
      }
    };
    take(common_options());
    if (const Command* const here = find_command(command)) take(here->options);
    return names;
  }

  Words words;
  std::string command;
  std::vector<std::string> operands;

 private:
  static CLI::App& add_to(CLI::App& in, std::string_view name) {
    CLI::App* const sub = in.add_subcommand(std::string(name));
    sub->set_help_flag();
    sub->fallthrough();
    sub->allow_extras();
    return *sub;
  }

  CLI::App& group(std::string_view name) {
    CLI::App*& known = groups_[name];
    if (known == nullptr) {
      known = &add_to(app_, name);
      known->require_subcommand(0, 1);
    }
    return *known;
  }

  void add(CLI::App& to, const std::vector<Option>& options) {
    for (const Option& option : options) {
      const std::string names(option.names);
      if (const auto* const text = std::get_if<std::string Words::*>(&option.word)) {
        to.add_option(names, words.**text)->check([](const std::string& given) {
          return std::string(given.empty() ? "the value is empty; give one, or leave it out" : "");
        });
      } else if (const auto* const perhaps =
                     std::get_if<std::optional<std::string> Words::*>(&option.word)) {
        to.add_option(names, words.**perhaps)->expected(0, 1)->default_str("");
      } else if (const auto* const all =
                     std::get_if<std::vector<std::string> Words::*>(&option.word)) {
        to.add_option(names, words.**all)->allow_extra_args(false);
      } else {
        to.add_flag(names, words.*std::get<bool Words::*>(option.word));
      }
    }
  }

  CLI::App app_;
  std::map<std::string_view, CLI::App*> groups_;
};

/// Says that there is no such command.
Failure unknown_command(const Line& line) {
  std::vector<std::string> known;
  std::string in_group;
  for (const Command& one : all_commands()) {
    known.emplace_back(one.name);
    if (!one.name.starts_with(line.command + " ")) continue;
    in_group += (in_group.empty() ? "" : ", ") + known.back();
  }
  if (line.operands.empty()) {
    return refused(line.command.empty() ? "no command was given"
                                        : "the command is not complete; write one of " + in_group);
  }
  const std::string group = line.command.empty() ? "" : line.command + " ";
  const std::string word = group + line.operands.front();
  return refused(format("unknown command {}{}", quoted_word(word), meant(word, known)));
}

/// Checks the command, and that each word is one of its operands.
Result<void> check(const Line& line) {
  for (const std::string& word : line.operands) {
    if (!word.starts_with('-') || word == "-") continue;
    const std::string name = word.substr(0, word.find('='));
    return refused(
        format("unknown option {}{}", quoted_word(name), meant(name, line.known_options())));
  }
  const Command* const command = find_command(line.command);
  if (command == nullptr) return unknown_command(line);
  const std::size_t wanted = line.words.idle ? 0 : command->operands.size();
  if (std::ranges::count(line.operands, "") > 0) {
    return refused(format("an argument is empty; write c10ddctl {}", usage_of(*command)));
  }
  if (line.operands.size() == wanted) return {};
  if (command->reads_files && line.operands.size() > wanted) return {};
  return refused(format("wrong number of arguments; write c10ddctl {}", usage_of(*command)));
}

/// Checks the names that a lease would make. Other commands also show and remove jobs with names
/// that an earlier version took.
Result<void> check_lease(const Line& line) {
  if (Result<void> good = check_name("job", line.operands.front()); !good) return good;
  if (Result<void> good = check_name("endpoint", line.words.endpoint); !good) return good;
  return check_name_or_none("run", line.words.run);
}

}  // namespace

Result<Parsed> parse(const std::vector<std::string>& words,
                     const client::Environment& environment) {
  Line line;
  if (Result<void> read = line.parse(words); !read) return read.error();
  const Words& given = line.words;
  const Command* const command = find_command(line.command);
  if (given.help) {
    if (command != nullptr) return Parsed{{}, help_of(*command)};
    return Parsed{{}, line.command.empty() ? help() : help_of_group(line.command)};
  }
  if (given.version) return Parsed{{}, format("c10ddctl {}\n", C10DD_VERSION)};
  if (Result<void> good = check(line); !good) return good.error();
  Parsed parsed;
  Arguments& out = parsed.arguments;
  out.command = line.command;
  out.operands = line.operands;
  if (given.output != "table" && given.output != "json") {
    return refused(format("--output is {}: expected table or json", quoted_word(given.output)));
  }
  out.json = given.output == "json";
  const auto timeout = read_timeout(given.timeout);
  if (!timeout) return timeout.error();
  out.timeout = *timeout;
  const auto world_size = parse_number<std::uint32_t>(given.world_size);
  if (!world_size || *world_size > limits::kWorldSize) {
    return refused(format("--world-size is {}: expected an integer from 0 (not known) to {}",
                          quoted_word(given.world_size), limits::kWorldSize));
  }
  out.world_size = *world_size;
  if (given.idle) {
    out.idle = given.idle->empty() ? Duration{0} : parse_duration(*given.idle, limits::kTimeoutMax);
    if (!out.idle) {
      return refused(format("--idle is {}: expected no value, or a time such as 30m or 2h",
                            quoted_word(*given.idle)));
    }
  }
  if (line.command == "lease") {
    if (const Result<void> good = check_lease(line); !good) return refused(good.error().detail);
  }
  out.endpoint = given.endpoint;
  out.run = given.run;
  out.watch = given.watch;
  out.ca = given;
  if (command->reads_files || command->is_local) return parsed;
  auto daemons = find_daemons(given.daemon, environment);
  if (!daemons) return daemons.error();
  out.daemons = std::move(*daemons);
  return parsed;
}

}  // namespace c10dd::ctl
