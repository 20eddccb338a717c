// SPDX-License-Identifier: Apache-2.0
#include "client/run/options.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <optional>

#include "client/run/address.h"
#include "protocol/limits.h"
#include "protocol/utf8.h"
#include "protocol/wording.h"

namespace c10dd::run {
namespace {

constexpr std::size_t kQuotedBytes = 120;
constexpr std::size_t kRunBytes = limits::kNameBytes - 24;  // a generation is added to it
constexpr std::size_t kOurLabels = 2;

/// What CLI11 reads before it is understood.
struct Words {
  std::string nproc = "1";
  std::string nnodes = "1";
  std::string max_restarts = "3";
  std::string node_rank;
  std::string job;
  std::string run;
  std::string daemon;
  std::string grace = "15s";
  std::string last_call = "30s";
  std::string join_timeout = "10m";
  std::string connect_timeout = "30s";
  std::vector<std::string> labels;
};

std::string in_quotes(std::string_view text) { return "\"" + printable(text, kQuotedBytes) + "\""; }

[[noreturn]] void refuse(const std::string& text) { throw Fatal(kUsage, text); }

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
  if (text == "gpu" || text == "auto" || text == "cpu") {
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

void declare(CLI::App& app, Words& w, Options& o) {
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  app.add_option("--nproc,--nproc-per-node,--nproc_per_node", w.nproc, "workers on this node")
      ->capture_default_str();
  app.add_option("--nnodes", w.nnodes, "nodes, N or MIN:MAX")->capture_default_str();
  app.add_option("--max-restarts,--max_restarts", w.max_restarts,
                 "failures after which the workers start again; a node that comes or goes is none")
      ->capture_default_str();
  app.add_option("--job", w.job, "the name that all nodes of the job give");
  app.add_option("--run", w.run, "this incarnation of the job");
  auto* daemon = app.add_option("--daemon", w.daemon,
                                "HOST:PORT or c10dd://HOST:PORT/JOB of the daemon; default: "
                                "C10DD_URL, C10DD_ADDR or 127.0.0.1:29500");
  app.add_flag("--standalone", o.standalone, "one node, with a daemon of its own")
      ->excludes(daemon);
  app.add_option("--node-rank,--node_rank", w.node_rank, "of this node; default: any");
  app.add_option("--log-dir,--log_dir", o.log_dir,
                 "also write DIR/GENERATION/RANK/stdout.log and stderr.log");
  app.add_flag("--prefix,!--no-prefix", o.prefix, "put [rank] before each line (the default)");
  app.add_flag("--console,!--no-console", o.console, "print what workers print (the default)");
  app.add_option("--grace", w.grace, "from SIGTERM to SIGKILL")->capture_default_str();
  app.add_option("--last-call,--last_call", w.last_call, "for more nodes, once MIN are there")
      ->capture_default_str();
  app.add_option("--join-timeout,--join_timeout", w.join_timeout, "for MIN nodes to come")
      ->capture_default_str();
  app.add_option("--connect-timeout,--connect_timeout", w.connect_timeout, "for the daemon")
      ->capture_default_str();
  app.add_option("--labels", w.labels, "NAME=VALUE that the other nodes can read; repeatable")
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_option("--domain", o.domain, "topology: a rack, a switch, an NVLink domain");
  app.add_option("--local-addr,--local_addr", o.local_address,
                 "where the others reach this node; default: its way to the daemon");
  app.set_version_flag("--version", "c10drun " C10DD_VERSION);
  app.prefix_command();
  app.footer("Example: c10drun --standalone --nproc 4 -- python3 train.py");
}

void understand(const Words& w, const client::Environment& environment, Options& o) {
  o.nproc = parse_nproc(w.nproc);
  parse_nodes(w.nnodes, o);
  o.max_restarts = parse_count("--max-restarts", w.max_restarts, 0, kRestarts);
  if (!w.node_rank.empty()) {
    o.node_rank = parse_count("--node-rank", w.node_rank, 0, o.max_nodes - 1);
    if (o.min_nodes != o.max_nodes) {
      refuse("--node-rank needs a fixed number of nodes, but --nnodes is " + w.nnodes);
    }
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
  if (o.domain.size() > limits::kNameBytes || o.local_address.size() > limits::kNameBytes) {
    refuse("--domain and --local-addr have at most " + std::to_string(limits::kNameBytes) +
           " bytes");
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
  Options& o = parsed.options;
  Words words;
  CLI::App app("Starts the workers of a training job on this node and keeps them running.",
               "c10drun");
  declare(app, words, o);
  std::vector<std::string> before;
  int at = 1;
  while (at < argc && std::string_view(argv[at]) != "--") before.emplace_back(argv[at++]);
  const bool marked = at < argc;
  try {
    app.parse(std::vector<std::string>(before.rbegin(), before.rend()));
  } catch (const CLI::CallForHelp&) {
    parsed.answer = app.help();
    return parsed;
  } catch (const CLI::CallForVersion& version) {
    parsed.answer = std::string(version.what()) + "\n";
    return parsed;
  } catch (const CLI::ParseError& error) {
    refuse(std::string(error.what()) + "; c10drun --help lists the options");
  }
  o.command = app.remaining();
  // A program would end our options, and `--` belongs to it then.
  if (!o.command.empty() && o.command.front().starts_with('-')) {
    refuse("unknown option " + in_quotes(o.command.front()) + "; c10drun --help lists the options");
  }
  for (int i = o.command.empty() ? at + 1 : at; i < argc; ++i) o.command.emplace_back(argv[i]);
  if (o.command.empty() || o.command.front().empty()) {
    refuse(std::string("no program to run") + (marked ? " after --" : "") +
           "; for example: c10drun --standalone --nproc 4 -- python3 train.py");
  }
  understand(words, environment, o);
  return parsed;
}

}  // namespace c10dd::run
