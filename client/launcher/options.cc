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
#include "protocol/limits.h"
#include "protocol/utf8.h"
#include "protocol/wording.h"

namespace c10dd::run {
namespace {

constexpr std::size_t kQuotedBytes = 120;
constexpr std::size_t kRunBytes = limits::kNameBytes - 24;  // a generation is added to it
constexpr std::size_t kOurLabels = 2;

std::string in_quotes(std::string_view text) { return "\"" + printable(text, kQuotedBytes) + "\""; }

[[noreturn]] void refuse(const std::string& text) { throw Fatal(exit_code::kUsage, text); }

std::uint32_t parse_count(const std::string& option, std::string_view text, std::uint32_t least,
                          std::uint32_t most) {
  std::uint32_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error == std::errc() && stop == end && value >= least && value <= most) return value;
  refuse(option + " is " + in_quotes(text) + ": expected a number from " + std::to_string(least) +
         " to " + std::to_string(most));
}

std::uint32_t parse_nproc(const std::string& text) {
  if (text == "gpu" || text == "auto" || text == "cpu" || text == "xpu") {
    refuse("--nproc " + text + ": c10drun does not count devices; give the number of workers");
  }
  return parse_count("--nproc", text, 1, kWorkersPerNode);
}

void parse_nodes(const std::string& text, Options& o) {
  const std::size_t colon = text.find(':');
  o.min_nodes =
      parse_count("--nnodes", std::string_view(text).substr(0, colon), 1, limits::kWorldSize);
  o.max_nodes = colon == std::string::npos
                    ? o.min_nodes
                    : parse_count("--nnodes", std::string_view(text).substr(colon + 1), 1,
                                  limits::kWorldSize);
  if (o.min_nodes > o.max_nodes) {
    refuse("--nnodes " + text + ": the least number of nodes, " + std::to_string(o.min_nodes) +
           ", is more than the most, " + std::to_string(o.max_nodes) + "; write MIN:MAX");
  }
}

void parse_labels(const std::vector<std::string>& words, Options& o) {
  for (const std::string& word : words) {
    const std::size_t equals = word.find('=');
    if (equals == std::string::npos || equals == 0) {
      refuse("--labels is " + in_quotes(word) + ": expected NAME=VALUE");
    }
    const std::string name = word.substr(0, equals);
    if (name == "nproc" || name == "address") {
      refuse("--labels " + in_quotes(word) + ": c10drun sets the label " + name + " itself");
    }
    for (const std::string& part : {name, word.substr(equals + 1)}) {
      if (part.size() <= limits::kNameBytes && is_utf8(part)) continue;
      refuse("--labels is " + in_quotes(word) + ": name and value have at most " +
             std::to_string(limits::kNameBytes) + " bytes of UTF-8 each");
    }
    o.labels[name] = word.substr(equals + 1);
  }
  if (o.labels.size() > limits::kLabels - kOurLabels) {
    refuse("--labels: " + std::to_string(o.labels.size()) + " of them, limit " +
           std::to_string(limits::kLabels - kOurLabels));
  }
}

/// The job if it is not in the daemon's URL.
std::string name_job(const Words& words, const Options& o, const client::LaunchEnvironment& found) {
  if (!words.job.empty()) return words.job;
  if (!found.job.empty()) return found.job;
  // Unique, so that two launches on one daemon do not meet.
  if (o.max_nodes == 1) return "c10drun-" + host_name() + "-" + std::to_string(getpid());
  refuse(
      "no name for the job: with more than one node give all of them the same --job NAME (or "
      "C10DD_JOB, or a URL with a job)");
}

void find_daemon(const Words& words, const client::Environment& environment,
                 const client::LaunchEnvironment& found, Options& o) {
  constexpr std::string_view kScheme = "c10dd://";
  const auto variable = [&](const char* name) {
    const char* text = o.standalone ? nullptr : environment(name);
    return std::string(text == nullptr ? "" : text);
  };
  std::string from = "--daemon";
  std::string text = words.daemon;
  if (text.empty()) text = variable((from = "C10DD_URL").c_str());
  if (text.empty()) text = variable((from = "C10DD_ADDR").c_str());
  if (text.empty()) {
    from = "--job";
    text = "127.0.0.1:" + std::to_string(client::kDefaultPort);
  }
  if (!text.starts_with(kScheme) && text.find("://") != std::string::npos) {
    refuse(from + " is " + in_quotes(text) + ": write HOST:PORT, or c10dd://HOST:PORT/JOB");
  }
  if (!text.starts_with(kScheme)) text = std::string(kScheme) + text;
  const bool has_job = text.find('/', kScheme.size()) + 1 < text.size() &&
                       text.find('/', kScheme.size()) != std::string::npos;
  if (!has_job) {
    if (text.ends_with('/')) text.pop_back();
    text += "/" + name_job(words, o, found);
  }
  Result<client::Url> url = client::parse_url(text);
  if (!url) refuse(from + ": " + url.error().detail);
  if (has_job && !words.job.empty() && url->job != words.job) {
    if (from == "--daemon") {
      refuse("--job is " + in_quotes(words.job) + ", but the job of --daemon " + in_quotes(text) +
             " is " + in_quotes(url->job) + "; give one of them");
    }
    url = client::parse_url(std::string(kScheme) + url->address() + "/" + words.job);
    if (!url) refuse("--job: " + url.error().detail);
  }
  o.daemon = std::move(*url);
}

/// Python has its way with scripts and modules, as under torchrun.
void make_command(const Words& w, const client::Environment& environment,
                  std::vector<std::string> program, Options& o) {
  if (w.module && w.no_python) {
    refuse("-m runs a module with python3, and --no-python forbids it; leave one of them out");
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

void understand(const Words& w, const client::Environment& environment, Options& o) {
  o.nproc = parse_nproc(w.nproc);
  parse_nodes(w.nnodes, o);
  o.max_restarts = parse_count("--max-restarts", w.max_restarts, 0, kRestarts);
  if (!w.node_rank.empty()) {
    o.node_rank = parse_count("--node-rank", w.node_rank, 0, limits::kWorldSize - 1);
    if (o.node_rank >= o.max_nodes) {
      refuse("--node-rank is " + w.node_rank + ", but --nnodes is " + w.nnodes +
             ": nodes are numbered from 0 to " + std::to_string(o.max_nodes - 1));
    }
    if (o.min_nodes != o.max_nodes) {
      refuse("--node-rank needs a fixed number of nodes, but --nnodes is " + w.nnodes);
    }
  }
  o.standalone = w.standalone;
  if (o.standalone && !w.daemon.empty()) {
    refuse("--standalone brings a daemon of its own; leave out --daemon " + w.daemon);
  }
  if (o.standalone && o.max_nodes > 1) {
    refuse("--standalone is for one node, but --nnodes is " + w.nnodes +
           "; start c10dd where all nodes reach it and give --daemon");
  }
  o.grace = parse_duration("--grace", w.grace);
  o.last_call = parse_duration("--last-call", w.last_call);
  o.join_timeout = parse_duration("--join-timeout", w.join_timeout);
  o.connect_timeout = parse_duration("--connect-timeout", w.connect_timeout);
  parse_labels(w.labels, o);
  parse_local_ranks(w.local_ranks, o);
  o.log_dir = w.log_dir;
  o.prefix = !w.no_prefix;
  o.console = !w.no_console;
  o.domain = w.domain;
  o.local_address = w.local_address;
  o.role = w.role;
  for (const std::string& text : {o.domain, o.local_address, o.role}) {
    if (text.size() <= limits::kNameBytes) continue;
    refuse("--domain, --local-addr and --role have at most " + std::to_string(limits::kNameBytes) +
           " bytes each, but one has " + std::to_string(text.size()));
  }
  // Ranks of an outer launcher do not matter here, and nor does it when they are wrong.
  const auto outer = client::read_launch_environment(environment);
  const client::LaunchEnvironment found = outer ? *outer : client::LaunchEnvironment();
  o.run = w.run.empty() ? found.run : w.run;
  if (o.run.size() > kRunBytes || printable(o.run, kRunBytes) != o.run) {
    refuse("--run is " + in_quotes(o.run) + ": expected at most " + std::to_string(kRunBytes) +
           " printable bytes");
  }
  find_daemon(w, environment, found, o);
}

}  // namespace

Duration parse_duration(const std::string& option, const std::string& text) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  const std::string_view unit(stop, static_cast<std::size_t>(end - stop));
  constexpr std::pair<std::string_view, double> kUnits[] = {{"", 1},   {"s", 1},    {"ms", 1e-3},
                                                            {"m", 60}, {"min", 60}, {"h", 3600}};
  std::optional<double> seconds;
  for (const auto& [name, factor] : kUnits) {
    if (error == std::errc() && unit == name) seconds = value * factor;
  }
  const double most = std::chrono::duration<double>(limits::kTimeoutMax).count();
  if (seconds && std::isfinite(*seconds) && *seconds >= 0 && *seconds <= most) {
    return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(*seconds));
  }
  refuse(option + " is " + in_quotes(text) +
         ": expected a duration such as 500ms, 15s, 10m or 2h, at "
         "most " +
         human(limits::kTimeoutMax));
}

ParsedOptions parse_options(int argc, const char* const* argv,
                            const client::Environment& environment) {
  ParsedOptions parsed;
  CommandLine line({argv + std::min(argc, 1), argv + argc});
  const Words words = line.parse();
  if (words.help) parsed.reply = help_text();
  if (words.version) parsed.reply = "c10drun " C10DD_VERSION "\n";
  if (!parsed.reply.empty()) return parsed;
  std::vector<std::string> program = line.rest();
  if (program.empty() || program.front().empty()) {
    refuse(std::string("no program to run") + (line.marked() ? " after --" : "") +
           "; for example: c10drun --standalone --nproc 4 train.py");
  }
  make_command(words, environment, std::move(program), parsed.options);
  understand(words, environment, parsed.options);
  return parsed;
}

}  // namespace c10dd::run
