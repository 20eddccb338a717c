// SPDX-License-Identifier: Apache-2.0
#include "client/launcher/options.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <optional>

#include "client/launcher/address.h"
#include "client/launcher/command_line.h"
#include "protocol/exit_codes.h"
#include "protocol/format.h"
#include "protocol/limits.h"
#include "protocol/names.h"
#include "protocol/parse.h"
#include "protocol/random.h"
#include "protocol/utf8.h"

namespace c10dd::run {
namespace {

constexpr std::size_t kRunBytes = limits::kNameBytes - 24;  // worker_run() appends a generation
constexpr std::size_t kOurLabels = 2;                       // nproc and address

std::string in_quotes(std::string_view text) { return "\"" + printable(text, kQuotedBytes) + "\""; }

std::uint32_t parse_count(const std::string& option, std::string_view text, std::uint32_t least,
                          std::uint32_t most) {
  const auto value = parse_number<std::uint32_t>(text);
  if (value && *value >= least && *value <= most) return *value;
  refuse(
      format("{} is {}: expected an integer from {} to {}", option, in_quotes(text), least, most));
}

std::uint32_t parse_nproc(const std::string& text) {
  if (text == "gpu" || text == "auto" || text == "cpu" || text == "xpu") {
    refuse(
        format("--nproc is \"{}\": c10drun does not detect devices; give the number of workers, "
               "for example --nproc 8",
               text));
  }
  return parse_count("--nproc", text, 1, kWorkersPerNode);
}

void parse_nodes(const std::string& text, Options& o) {
  const std::size_t colon = text.find(':');
  o.min_nodes =
      parse_count("--nnodes", std::string_view(text).substr(0, colon), 1, limits::kWorldSize);
  o.max_nodes = o.min_nodes;
  if (colon != std::string::npos) {
    o.max_nodes =
        parse_count("--nnodes", std::string_view(text).substr(colon + 1), 1, limits::kWorldSize);
  }
  if (o.min_nodes > o.max_nodes) {
    refuse(
        format("--nnodes is \"{}\": the minimum, {}, is more than the maximum, {}; write MIN:MAX, "
               "for example 2:4",
               text, o.min_nodes, o.max_nodes));
  }
}

void parse_labels(const std::vector<std::string>& words, Options& o) {
  for (const std::string& word : words) {
    const std::size_t equals = word.find('=');
    if (equals == std::string::npos || equals == 0) {
      refuse(format("--labels is {}: expected NAME=VALUE, for example rack=7", in_quotes(word)));
    }
    const std::string name = word.substr(0, equals);
    if (name == "nproc" || name == "address") {
      refuse(format("--labels is {}: c10drun sets the label {} itself; choose another name",
                    in_quotes(word), name));
    }
    for (const std::string& part : {name, word.substr(equals + 1)}) {
      if (part.size() > limits::kNameBytes) {
        refuse(format("--labels is {}: its name or value has {} bytes, limit {}", in_quotes(word),
                      part.size(), limits::kNameBytes));
      }
      if (!is_utf8(part)) refuse(format("--labels is {}: it must be UTF-8", in_quotes(word)));
    }
    o.labels[name] = word.substr(equals + 1);
  }
  if (o.labels.size() > limits::kLabels - kOurLabels) {
    refuse(format("--labels gives {} labels, limit {}", o.labels.size(),
                  limits::kLabels - kOurLabels));
  }
}

bool is_set(const client::Environment& environment, const char* name) {
  const char* const value = environment(name);
  return value != nullptr && *value != '\0';
}

/// Returns the name of the job. Called if the daemon's URL does not contain the name.
std::string name_job(const Words& words, const Options& o, const client::LaunchEnvironment& found,
                     const client::Environment& environment) {
  const bool by_variable = is_set(environment, "C10DD_JOB");
  const bool of_torchrun = words.variables.contains("--job");
  if (!words.job.empty() && !(of_torchrun && by_variable)) return words.job;
  // On one node, the name is unique, so that two launches at one daemon do not join the same group:
  // two steps of a Slurm job, or process 1 in two containers.
  if (o.max_nodes == 1 && !by_variable) {
    const std::string base =
        found.job.empty() ? format("c10drun-{}-{}", host_name(), getpid()) : found.job;
    return base.substr(0, limits::kNameBytes - 9) + "-" + random_name();
  }
  if (!found.job.empty()) return found.job;
  // Kubeflow gives all nodes of a job the address of its first one.
  const char* const master = environment("PET_MASTER_ADDR");
  const char* const port = environment("PET_MASTER_PORT");
  if (master != nullptr && port != nullptr) {
    return format("pet-{}-{}", master, port).substr(0, limits::kNameBytes);
  }
  refuse(
      "the job has no name: for more than one node, give all nodes the same --job NAME, the same "
      "C10DD_JOB, or a URL with a job");
}

/// Sets o.daemon from the first of these that is set: the option --daemon, the variable C10DD_URL,
/// the variable C10DD_ADDR. If none is set, uses the default address.
void find_daemon(const Words& words, const client::Environment& environment,
                 const client::LaunchEnvironment& found, Options& o) {
  constexpr std::string_view kScheme = "c10dd://";
  const auto variable = [&](const char* name) {
    const char* text = o.standalone ? nullptr : environment(name);
    return std::string(text == nullptr ? "" : text);
  };
  const bool of_torchrun = words.variables.contains("--daemon");  // the variables of c10dd go first
  std::string from = "--daemon";
  std::string text = of_torchrun ? "" : words.daemon;
  if (text.empty()) text = variable((from = "C10DD_URL").c_str());
  if (text.empty()) text = variable((from = "C10DD_ADDR").c_str());
  if (text.empty() && of_torchrun) text = variable((from = "PET_RDZV_ENDPOINT").c_str());
  if (text.empty() && !o.standalone && o.max_nodes > 1 && is_set(environment, "PET_MASTER_ADDR")) {
    refuse(
        format("PET_MASTER_ADDR={} is where torchrun would open its store; c10drun needs a daemon: "
               "start c10dd on a host that all nodes can reach, and set C10DD_ADDR=HOST:PORT",
               in_quotes(environment("PET_MASTER_ADDR"))));
  }
  if (text.empty()) {
    from = "--job";  // the only part of this URL that can be wrong
    text = "127.0.0.1:" + std::to_string(client::kDefaultPort);
  }
  if (!text.starts_with(kScheme) && text.find("://") != std::string::npos) {
    refuse(
        format("{} is {}: write HOST:PORT or c10dd://HOST:PORT/JOB, for example head:29500, or "
               "for several daemons a:29500,b:29500",
               from, in_quotes(text)));
  }
  if (!text.starts_with(kScheme)) text = std::string(kScheme) + text;
  const bool has_job = text.find('/', kScheme.size()) + 1 < text.size() &&
                       text.find('/', kScheme.size()) != std::string::npos;
  if (!has_job) {
    if (text.ends_with('/')) text.pop_back();
    text += "/" + client::encoded_job(name_job(words, o, found, environment));
  }
  Result<client::Url> url = client::parse_url(text);
  if (!url) refuse(from + ": " + url.error().detail);
  if (has_job && !words.job.empty() && !words.variables.contains("--job") &&
      url->job != words.job) {
    if (from == "--daemon") {
      refuse(format("--job is {}, but --daemon {} names the job {}; name the job only once",
                    in_quotes(words.job), in_quotes(text), in_quotes(url->job)));
    }
    url = client::parse_url(std::string(kScheme) + url->addresses() + "/" +
                            client::encoded_job(words.job));
    if (!url) refuse("--job: " + url.error().detail);
  }
  o.daemon = std::move(*url);
}

/// Sets the command of the workers. Like torchrun, puts the Python interpreter before a script or a
/// module. Any other program is run directly.
void make_command(const Words& w, const client::Environment& environment,
                  std::vector<std::string> program, Options& o) {
  if (w.module && w.no_python) {
    refuse("-m runs a module with python3, but --no-python forbids python3; leave one of them out");
  }
  const char* python = environment("PYTHON_EXEC");
  const bool script = !w.module && !w.no_python && program.front().ends_with(".py");
  if (script) o.script = program.front();
  if (script || w.module) {
    o.command = {python == nullptr || *python == '\0' ? "python3" : python, "-u"};
  }
  if (w.module) o.command.emplace_back("-m");
  std::move(program.begin(), program.end(), std::back_inserter(o.command));
}

void parse_local_ranks(const std::string& text, Options& o) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t comma = std::min(text.find(',', at), text.size());
    o.console_ranks.insert(parse_count(
        "--local-ranks-filter", std::string_view(text).substr(at, comma - at), 0, o.nproc - 1));
    at = comma + 1;
  }
}

void check_words(const Words& w, const client::Environment& environment, Options& o) {
  o.nproc = parse_nproc(w.nproc);
  parse_nodes(w.nnodes, o);
  o.max_restarts = parse_count("--max-restarts", w.max_restarts, 0, kRestarts);
  o.max_flaps = parse_count("--max-flaps", w.max_flaps, 0, kRestarts);
  if (!w.node_rank.empty()) {
    o.node_rank = parse_count("--node-rank", w.node_rank, 0, limits::kWorldSize - 1);
    if (o.node_rank >= o.max_nodes) {
      refuse(format("--node-rank is {}, but --nnodes is {}: nodes are numbered from 0 to {}",
                    w.node_rank, w.nnodes, o.max_nodes - 1));
    }
    if (o.min_nodes != o.max_nodes) {
      refuse(
          format("--node-rank needs a fixed number of nodes, but --nnodes is {}; leave out "
                 "--node-rank, or give one number to --nnodes",
                 w.nnodes));
    }
  }
  o.standalone = w.standalone;
  if (o.standalone && !w.daemon.empty() && !w.variables.contains("--daemon")) {
    refuse("--standalone starts its own daemon; leave out --daemon " + w.daemon);
  }
  if (o.standalone && o.max_nodes > 1) {
    refuse(
        format("--standalone is for one node, but --nnodes is {}; start c10dd on a host that all "
               "nodes can reach, and use --daemon HOST:PORT",
               w.nnodes));
  }
  o.grace = parse_duration("--grace", w.grace);
  o.last_call = parse_duration("--last-call", w.last_call);
  o.join_timeout = parse_duration("--join-timeout", w.join_timeout);
  o.connect_timeout = parse_duration("--connect-timeout", w.connect_timeout);
  o.exit_timeout = parse_duration("--exit-timeout", w.exit_timeout);
  if (w.store != "proxy" && w.store != "rank0") {
    refuse(format("--store is {}: expected proxy or rank0", in_quotes(w.store)));
  }
  o.store_in_rank0 = w.store == "rank0";
  if (!w.stdin_rank.empty()) {
    const std::uint32_t last = o.max_nodes == 1 ? o.nproc - 1 : limits::kWorldSize - 1;
    o.stdin_rank = parse_count("--stdin", w.stdin_rank, 0, last);
  }
  parse_labels(w.labels, o);
  parse_local_ranks(w.local_ranks, o);
  o.log_dir = w.log_dir;
  o.prefix = !w.no_prefix;
  o.console = !w.no_console;
  o.domain = w.domain;
  o.local_address = w.local_address;
  o.role = w.role;
  const std::pair<const char*, const std::string&> texts[] = {
      {"--domain", o.domain}, {"--local-addr", o.local_address}, {"--role", o.role}};
  for (const auto& [option, text] : texts) {
    if (text.size() <= limits::kNameBytes) continue;
    refuse(format("{} is {}: it has {} bytes, limit {}", option, in_quotes(text), text.size(),
                  limits::kNameBytes));
  }
  // Take only the name of the job and the name of the run from an outer launcher's environment.
  // Take neither if any variable that read_launch_environment() reads is invalid.
  const auto outer = client::read_launch_environment(environment);
  const client::LaunchEnvironment found = outer ? *outer : client::LaunchEnvironment();
  o.run = w.run.empty() ? found.run : w.run;
  if (const Result<void> good = check_name_or_none("run", o.run); !good) {
    refuse("--run: " + good.error().detail);
  }
  if (o.run.size() > kRunBytes || printable(o.run, kRunBytes) != o.run) {
    refuse(format("--run is {}: expected printable text of at most {} bytes, got {} bytes",
                  in_quotes(o.run), kRunBytes, o.run.size()));
  }
  find_daemon(w, environment, found, o);
}

/// Returns the variable of c10dd that goes before the PET_* variable of this option; nullptr if
/// there is none.
const char* overruled_by(const std::string& option, const client::Environment& environment) {
  if (option == "--job" && is_set(environment, "C10DD_JOB")) return "C10DD_JOB";
  if (option != "--daemon") return nullptr;
  for (const char* const name : {"C10DD_URL", "C10DD_ADDR"}) {
    if (is_set(environment, name)) return name;
  }
  return nullptr;
}

/// As check_words(). An error about an option that a variable has set names the variable.
void check_all(const Words& words, const client::Environment& environment, Options& o) {
  for (const auto& [option, variable] : words.variables) {
    if (overruled_by(option, environment) != nullptr) continue;
    o.from_variables.push_back(variable.first + "=" + printable(variable.second, kQuotedBytes));
  }
  try {
    check_words(words, environment, o);
  } catch (const Fatal& fatal) {
    for (const auto& [option, variable] : words.variables) {
      if (std::string_view(fatal.what()).find(option) == std::string_view::npos) continue;
      throw Fatal(fatal.code(), format("{} ({} is from {}={})", fatal.what(), option,
                                       variable.first, printable(variable.second, kQuotedBytes)));
    }
    throw;
  }
}

/// Returns the text of --show.
std::string shown(const Words& words, const client::Environment& environment, const Options& o) {
  std::string text =
      format("daemon {}\njob {}\nrun {}\n", o.standalone ? "(standalone)" : o.daemon.addresses(),
             o.daemon.job, o.run.empty() ? "(none)" : o.run);
  for (const Option& option : all_options()) {
    const auto* word = std::get_if<std::string Words::*>(&option.word);
    if (word == nullptr || (words.**word).empty()) continue;
    const auto variable = words.variables.find(std::string(option.names.front()));
    const bool standard = words.**word == Words().**word;
    if (variable != words.variables.end()) {
      const char* const other = overruled_by(variable->first, environment);
      if (other != nullptr) {
        text += format("{} {} from {}, but {} takes precedence\n", option.names.front(),
                       words.**word, variable->second.first, other);
        continue;
      }
    }
    text += format("{} {}{}\n", option.names.front(), words.**word,
                   variable != words.variables.end() ? " from " + variable->second.first
                   : standard                        ? " by default"
                                                     : "");
  }
  const auto found = client::read_launch_environment(environment);
  return text + "launcher of this process: " + (found ? found->summary() : found.error().detail) +
         "\n";
}

}  // namespace

std::string random_name() { return format("{:08x}", static_cast<std::uint32_t>(random_number())); }

void refuse(const std::string& text) { throw Fatal(exit_code::kUsage, text); }

Duration parse_duration(const std::string& option, const std::string& text) {
  if (const auto parsed = c10dd::parse_duration(text, limits::kTimeoutMax)) return *parsed;
  refuse(format("{} is {}: expected a duration such as 500ms, 15s, 10m or 2h, at most {}h", option,
                in_quotes(text),
                std::chrono::floor<std::chrono::hours>(limits::kTimeoutMax).count()));
}

ParsedOptions parse_options(int argc, const char* const* argv,
                            const client::Environment& environment) {
  ParsedOptions parsed;
  CommandLine line({argv + std::min(argc, 1), argv + argc});
  const Words words = line.parse(environment);
  if (words.help) parsed.reply = help_text();
  if (words.version) parsed.reply = "c10drun " C10DD_VERSION "\n";
  if (!parsed.reply.empty()) return parsed;
  if (words.show) {
    check_all(words, environment, parsed.options);
    parsed.reply = shown(words, environment, parsed.options);
    return parsed;
  }
  std::vector<std::string> program = line.rest();
  if (program.empty() || program.front().empty()) {
    refuse(format("no program to run{}; for example: c10drun --standalone --nproc 4 train.py",
                  line.has_separator() ? " after --" : ""));
  }
  make_command(words, environment, std::move(program), parsed.options);
  check_all(words, environment, parsed.options);
  return parsed;
}

}  // namespace c10dd::run
