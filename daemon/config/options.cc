// SPDX-License-Identifier: Apache-2.0
// Applies the layers that set options, in this order: defaults, file, variables, flags. An invalid
// value in any layer is an error, even if a later layer would replace the value.
#include "daemon/config/options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <optional>
#include <utility>
#include <vector>

#include "daemon/config/config_file.h"
#include "daemon/config/option_table.h"
#include "daemon/config/option_values.h"
#include "daemon/config/version.h"
#include "protocol/address.h"
#include "protocol/exit_codes.h"
#include "protocol/format.h"
#include "protocol/nearest.h"
#include "protocol/utf8.h"

namespace c10dd::daemon {
namespace {

const std::span<const Option> kOptions = all_options();
const std::size_t kCount = kOptions.size();

std::string flag_of(std::string_view name) {
  std::string flag = "--" + std::string(name);
  std::replace(flag.begin(), flag.end(), '_', '-');
  return flag;
}

std::string variable_of(std::string_view name) {
  std::string variable = "C10DD_" + std::string(name);
  for (char& c : variable) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  return variable;
}

std::string toml_of(const Option& option, const std::string& text) {
  return option.form == ConfigEntry::Form::text ? toml_string(text) : text;
}

/// Returns the default of each option. The engine is empty if default_engine() fails; apply_all()
/// reports that failure only if no layer sets the engine.
Options default_options() {
  Options options;
  if (const auto engine = default_engine()) options.engine = *engine;
  return options;
}

/// Returns a hint for an unknown word: the most similar word of `known`, and the list of `known`.
std::string hint(std::string_view word, const std::vector<std::string>& known) {
  std::string list;
  for (const std::string& name : known) list += (list.empty() ? "" : ", ") + name;
  const std::string meant = nearest(word, known);
  return (meant.empty() ? "" : "did you mean \"" + meant + "\"? ") + ("use one of " + list);
}

std::string default_text(const Option& option, const Options& defaults) {
  const std::string text = printable(option.get(defaults), 256);
  return text.empty() ? "no default" : "default " + text;
}

/// The options that have been read so far, and the source of each value.
struct Layers {
  Options options;
  std::vector<std::string> source = std::vector<std::string>(kCount);  ///< empty: the default

  Result<void> set(std::size_t at, const std::string& text, const std::string& from) {
    if (!is_utf8(text)) {
      return failure(Code::invalid_argument, "{}: \"{}\" is not UTF-8", from,
                     printable(store::without_password(text), 80));
    }
    Result<void> done = kOptions[at].set(options, text);
    if (!done) return failure(Code::invalid_argument, "{}: {}", from, done.error().detail);
    source[at] = from;
    return {};
  }
};

Result<void> apply_file(Layers& layers, const std::string& path) {
  const Result<std::vector<ConfigEntry>> entries = read_config(path);
  if (!entries) return entries.error();
  std::vector<std::string> names;
  for (const Option& option : kOptions) names.emplace_back(option.name);
  for (const ConfigEntry& entry : *entries) {
    const auto found = std::find(names.begin(), names.end(), entry.key);
    if (found == names.end()) {
      return failure(Code::invalid_argument, "{}: unknown key \"{}\"; {}", entry.where,
                     printable(entry.key, 80), hint(entry.key, names));
    }
    const auto at = static_cast<std::size_t>(found - names.begin());
    const std::string from = entry.where + ": " + entry.key;
    if (entry.form != kOptions[at].form) {
      return failure(Code::invalid_argument, "{}: wrong type {}; use for example {} = {}", from,
                     entry.type, entry.key,
                     toml_of(kOptions[at], kOptions[at].get(default_options())));
    }
    if (Result<void> done = layers.set(at, entry.text, from); !done) return done;
  }
  return {};
}

struct CommandLine {
  CLI::App app{
      "Coordination daemon for distributed training: keys, queues, barriers, exchanges and\n"
      "groups for the ranks of training jobs.",
      "c10dd"};
  std::vector<CLI::Option*> flags = std::vector<CLI::Option*>(kCount);
  CLI::Option* config = nullptr;
  CLI::Option* print_config = nullptr;
  CLI::Option* accept_rollback = nullptr;
  CLI::Option* checkpoint = nullptr;

  CommandLine() {
    app.allow_extras();  // leaves unknown words to unknown(), which adds a hint
    app.set_help_flag("-h,--help", "print this help and exit");
    app.set_version_flag("--version", std::string("c10dd ") + kVersion,
                         "print the version and exit");
    config = app.add_option("--config")
                 ->type_name("FILE")
                 ->description(
                     "read a TOML file with any of the options from --listen on, for\n"
                     "example log_level = \"debug\" for --log-level debug\n" +
                     variable_of("config"));
    print_config =
        app.add_flag("--print-config")
            ->description("print the effective options in the format of this file, then exit");
    accept_rollback = app.add_flag("--accept-rollback")
                          ->description(
                              "start once on a state that has lost acknowledged changes; this\n"
                              "ends all sessions that were open");
    checkpoint = app.add_option("--checkpoint")
                     ->type_name("DIR")
                     ->description(
                         "ask the daemon at the --listen address to write a copy of its\n"
                         "state to DIR, which must not exist, then exit");
    const Options defaults = default_options();
    for (std::size_t i = 0; i < kCount; ++i) {
      const Option& option = kOptions[i];
      const std::string name = flag_of(option.name);
      flags[i] = option.value.empty() ? app.add_flag(name) : app.add_option(name);
      if (!option.value.empty()) flags[i]->type_name(std::string(option.value));
      const std::string sentence(option.sentence);
      flags[i]->take_last()->description(
          format("{}\n{}, {}", sentence, variable_of(option.name), default_text(option, defaults)));
    }
    app.footer(
        "The last line of an option names its environment variable. A flag overrides its "
        "variable,\n"
        "which overrides the file. An empty variable counts as not set.");
  }

  /// Returns the error for a word that is neither an option nor the value of an option.
  Failure unknown(const std::string& word) const {
    if (!word.starts_with("-")) {
      return failure(Code::invalid_argument,
                     "unexpected argument \"{}\"; c10dd takes only options, see --help",
                     printable(store::without_password(word), 80));
    }
    std::vector<std::string> names;
    for (const CLI::Option* option : app.get_options()) names.push_back(option->get_name());
    const std::string flag = word.substr(0, word.find('='));
    return failure(Code::invalid_argument, "unknown option \"{}\"; {}", printable(flag, 80),
                   hint(flag, names));
  }

  /// Returns the text of a parser error. Rewords errors such as "--listen: 1 required HOST:PORT
  /// missing" and "--config: At Most 1 required but received 2".
  std::string text_of(const CLI::ParseError& error) const {
    std::string text = error.what();
    const std::string name = text.substr(0, text.find(':'));
    const CLI::Option* option = app.get_option_no_throw(name);
    if (option == nullptr) return text;
    if (text.ends_with(" missing")) {
      return format("{}: no value given; use {} {}", name, name, option->get_type_name());
    }
    const bool repeated = text.find("At Most 1 required") != std::string::npos;
    return repeated ? name + ": given more than once; give it once" : text;
  }
};

std::optional<std::string> variable(std::string_view name) {
  const char* value = std::getenv(variable_of(name).c_str());
  return value && *value ? std::optional<std::string>(value) : std::nullopt;
}

/// Warns of each C10DD_* variable whose name differs by a few letters from an option's variable.
/// Other C10DD_* variables cause no warning, because clients use some of them (such as C10DD_URL).
void warn_of_misspelt_variables() {
  const std::string prefix = variable_of("");
  std::vector<std::string> known = {"CONFIG"};
  for (const Option& option : kOptions)
    known.push_back(variable_of(option.name).substr(prefix.size()));
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    if (!text.starts_with(prefix)) continue;
    const std::string name(text.substr(prefix.size(), text.find('=') - prefix.size()));
    const std::string meant = nearest(name, known);
    if (meant.empty() || meant == name) continue;
    std::cerr << "c10dd: ignored unknown variable " << prefix << printable(name, 80)
              << "; did you mean " << prefix << meant << "?\n";
  }
}

std::size_t index_of(std::string_view name) {
  return static_cast<std::size_t>(std::ranges::find(kOptions, name, &Option::name) -
                                  std::begin(kOptions));
}

/// Refuses an address that anybody can reach who is asked nothing. Called after all layers were
/// read, because a later layer may set the options that this depends on.
Result<void> check_access(const Layers& layers) {
  const Options& options = layers.options;
  if (!options.grants.empty() && options.tls.empty()) {
    return failure(Code::invalid_argument,
                   "{} needs {}: without it this daemon asks nobody who he is",
                   layers.source[index_of("grants")], flag_of("tls"));
  }
  if (!options.tls.empty() && !options.allow_insecure_redis && is_insecure_redis(options.engine)) {
    return failure(Code::invalid_argument,
                   "{}: the rows of all jobs would travel to {} in the clear, although {} is "
                   "given; use rediss://, or accept the risk with {}",
                   layers.source[index_of("engine")], store::without_password(options.engine),
                   flag_of("tls"), flag_of("allow_insecure_redis"));
  }
  if (!options.redis_ca.empty() && !options.engine.starts_with("rediss")) {
    return failure(Code::invalid_argument,
                   "{}: the engine {} does not use TLS to a Redis; use rediss:// or "
                   "rediss+sentinel://, or leave it out",
                   layers.source[index_of("redis_ca")], store::without_password(options.engine));
  }
  const bool asks = !options.tls.empty() || options.allow_insecure_listen;
  if (asks || is_loopback(options.listen_host)) return {};
  return failure(Code::invalid_argument,
                 "{}: {} can be reached from other machines, and without {} whoever can connect to "
                 "the port can read and change every job; run c10ddctl ca init and add {} DIR, "
                 "listen on 127.0.0.1, or accept the risk with {}",
                 layers.source[0], options.listen_host, flag_of("tls"), flag_of("tls"),
                 flag_of("allow_insecure_listen"));
}

/// The other daemons of a fleet send clients here, and pass requests over HTTP on.
Result<void> check_spoken(const Layers& layers) {
  const ProtocolSet& spoken = layers.options.protocols;
  if (spoken.has(Protocol::native) && spoken.has(Protocol::http)) return {};
  return failure(Code::invalid_argument,
                 "{} must include native and http with the engine {}, because other daemons "
                 "redirect clients and forward requests to this one",
                 layers.source[index_of("protocols")],
                 store::without_password(layers.options.engine));
}

/// Refuses options that have no effect on an engine that daemons do not share.
Result<void> check_shared(const Layers& layers) {
  const Options& options = layers.options;
  if (options.engine.starts_with("redis")) return check_spoken(layers);
  const Options defaults = default_options();
  for (std::size_t i = 0; i < kCount; ++i) {
    const Option& option = kOptions[i];
    const bool for_shared =
        option.name == "lease" || option.name == "mark" || option.name == "advertise";
    if (!for_shared || option.get(options) == option.get(defaults)) continue;
    return failure(
        Code::invalid_argument,
        "{} needs a shared engine (redis:// or redis+sentinel://), but the engine is {}; "
        "remove this option, or choose such an engine",
        layers.source[i], store::without_password(options.engine));
  }
  return {};
}

Result<void> apply_all(Layers& layers, const CommandLine& line) {
  if (const auto extra = line.app.remaining(); !extra.empty()) return line.unknown(extra.front());
  std::optional<std::string> file = variable("config");
  if (line.config->count() > 0) file = line.config->results().back();
  Result<void> done = set_listen(layers.options, layers.options.listen);
  if (file) done = apply_file(layers, *file);
  for (std::size_t i = 0; i < kCount && done; ++i) {
    const std::string_view name = kOptions[i].name;
    if (const auto text = variable(name)) done = layers.set(i, *text, variable_of(name));
    if (!done || line.flags[i]->count() == 0) continue;
    const std::string& given = line.flags[i]->results().back();
    if (given.empty() && (name == "tls" || name == "grants" || name == "redis_ca")) {
      return failure(Code::invalid_argument, "{}: the value is empty; give a path, or leave it out",
                     flag_of(name));
    }
    done = layers.set(i, given, flag_of(name));
  }
  Options& options = layers.options;
  if (done && options.engine.empty()) {
    Result<std::string> engine = default_engine();
    if (!engine) return failure(Code::invalid_argument, "--engine: " + engine.error().detail);
    done = set_engine(options, *engine);
  }
  if (done) done = check_access(layers);
  return done ? check_shared(layers) : done;
}

void print(const Options& options) {
  std::cout << "# c10dd " << kVersion << ", effective options; load them with --config FILE\n";
  const Options defaults = default_options();
  for (const Option& option : kOptions) {
    std::cout << "\n# ";
    for (const char c : option.sentence) std::cout << (c == '\n' ? "\n# " : std::string(1, c));
    std::string value = option.get(options);
    if (value.starts_with("redis")) value = store::without_password(value);
    std::cout << "\n# " << flag_of(option.name) << ", " << variable_of(option.name) << ", "
              << default_text(option, defaults) << "\n"
              << option.name << " = " << toml_of(option, value) << "\n";
  }
}

}  // namespace

ParsedOptions parse_options(int argc, const char* const* argv) {
  CommandLine line;
  Layers layers;
  std::string error;
  try {
    line.app.parse(argc, argv);
    if (Result<void> done = apply_all(layers, line); !done) error = done.error().detail;
  } catch (const CLI::CallForHelp&) {
    std::cout << line.app.help();
    return {true, 0, {}, {}};
  } catch (const CLI::CallForVersion& version) {
    std::cout << version.what() << "\n";
    return {true, 0, {}, {}};
  } catch (const CLI::ParseError& bad_line) {
    error = line.text_of(bad_line);
  }
  if (!error.empty()) {
    std::cerr << "c10dd: " << error << "\n";
    return {true, exit_code::kUsage, {}, {}};
  }
  warn_of_misspelt_variables();
  if (line.print_config->count() > 0) print(layers.options);
  layers.options.accept_rollback = line.accept_rollback->count() > 0;
  ParsedOptions parsed{line.print_config->count() > 0, 0, layers.options, {}};
  if (line.checkpoint->count() > 0) parsed.checkpoint = line.checkpoint->results().back();
  return parsed;
}

}  // namespace c10dd::daemon
