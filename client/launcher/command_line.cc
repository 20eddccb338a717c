// SPDX-License-Identifier: Apache-2.0
#include "client/launcher/command_line.h"

#include <algorithm>
#include <optional>

#include "client/launcher/options.h"
#include "protocol/exit_codes.h"
#include "protocol/format.h"
#include "protocol/nearest.h"
#include "protocol/utf8.h"

namespace c10dd::run {
namespace {

constexpr std::string_view kList = " c10drun --help lists the options";

/// An option as the user wrote it: --name, --name=value, -n or -nvalue.
struct Written {
  std::string name;
  std::optional<std::string> value;

  explicit Written(const std::string& word) {
    const bool is_long = word.starts_with("--");
    const std::size_t end = is_long ? word.find('=') : std::min<std::size_t>(2, word.size());
    name = word.substr(0, end);
    if (is_long) std::replace(name.begin() + 2, name.end(), '_', '-');
    if (end < word.size()) value = word.substr(is_long ? end + 1 : end);
  }
};

template <class Entry>
const Entry* find(const std::vector<Entry>& table, std::string_view name) {
  const auto found = std::find_if(table.begin(), table.end(), [&](const Entry& entry) {
    return std::find(entry.names.begin(), entry.names.end(), name) != entry.names.end();
  });
  return found == table.end() ? nullptr : &*found;
}

[[noreturn]] void refuse_unknown(const std::string& name) {
  std::vector<std::string> known;
  for (const Option& option : all_options()) {
    known.insert(known.end(), option.names.begin(), option.names.end());
  }
  const std::string meant = nearest(name, known);
  refuse(format("unknown option \"{}\"{}{}", printable(name, kQuotedBytes),
                meant.empty() ? ";" : "; did you mean \"" + meant + "\"?", kList));
}

/// Accepts a flag of torchrun if the given value has no effect in c10drun; the flag is then
/// ignored. Throws Fatal for any other value.
void check(const TorchrunFlag& flag, const std::string& name,
           const std::optional<std::string>& given) {
  for (const std::string_view value : flag.accepted) {
    if (value == "*" || value == given) return;
  }
  refuse(format("{}{} is an option of torchrun: {}", name,
                given ? " " + printable(*given, kQuotedBytes) : "", flag.instead));
}

/// Returns PET_NNODES for --nnodes.
std::string variable_of(std::string_view option) {
  std::string name = "PET_";
  for (const char c : option.substr(2)) {
    name += c == '-' ? '_' : static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  }
  return name;
}

/// Returns the value of a switch's variable, 0 or 1.
bool is_set(const std::string& variable, std::string_view value) {
  if (value != "0" && value != "1") {
    refuse(format("{} is \"{}\": expected 1, or 0 to leave the option out", variable,
                  printable(value, kQuotedBytes)));
  }
  return value == "1";
}

}  // namespace

void CommandLine::take(const std::string& word, Words& words) {
  Written written(word);
  const Option* option = find(all_options(), written.name);
  const TorchrunFlag* torchrun = option == nullptr ? find(torchrun_flags(), written.name) : nullptr;
  if (option == nullptr && torchrun == nullptr) refuse_unknown(written.name);
  const bool wants_value = option == nullptr ? torchrun->has_value : !option->value.empty();
  if (!wants_value && written.value) {
    refuse(format("{} takes no value, but was given as {}", written.name,
                  printable(word, kQuotedBytes)));
  }
  if (wants_value && !written.value) {
    if (at_ == arguments_.size()) {
      refuse(format("{} needs a value{};{}", written.name,
                    option == nullptr ? "" : format(": {} {}", written.name, option->value),
                    kList));
    }
    written.value = arguments_[at_++];
  }
  if (option != nullptr) words.variables.erase(std::string(option->names.front()));
  if (option == nullptr) return check(*torchrun, written.name, written.value);
  if (const auto* flag = std::get_if<bool Words::*>(&option->word)) {
    words.** flag = true;
  } else if (const auto* text = std::get_if<std::string Words::*>(&option->word)) {
    words.** text = *written.value;
  } else {
    (words.*std::get<std::vector<std::string> Words::*>(option->word)).push_back(*written.value);
  }
}

/// Sets options from the variables of torchrun. The address of torchrun's own store has no use
/// here.
void CommandLine::take_variables(const client::Environment& environment, Words& words) {
  std::vector<std::string_view> names;
  for (const Option& option : all_options()) {
    names.insert(names.end(), option.names.begin(), option.names.end());
  }
  for (const TorchrunFlag& flag : torchrun_flags()) {
    names.insert(names.end(), flag.names.begin(), flag.names.end());
  }
  for (const std::string_view name : names) {
    if (!name.starts_with("--") || name.starts_with("--master-")) continue;
    const std::string variable = variable_of(name);
    const char* const value = environment(variable.c_str());
    if (value == nullptr || *value == '\0') continue;
    const Option* const option = find(all_options(), name);
    if (option == nullptr) {
      const TorchrunFlag& flag = *find(torchrun_flags(), name);
      if (flag.has_value || std::string_view(value) != "0") check(flag, variable, value);
      continue;
    }
    if (auto* const flag = std::get_if<bool Words::*>(&option->word)) {
      words.** flag = is_set(variable, value);
    } else if (auto* const text = std::get_if<std::string Words::*>(&option->word)) {
      words.** text = value;
    } else {
      continue;  // torchrun has no option that may be repeated
    }
    words.variables[std::string(option->names.front())] = {variable, value};
  }
}

Words CommandLine::parse(const client::Environment& environment) {
  Words words;
  if (environment) take_variables(environment, words);
  while (at_ < arguments_.size() && !separator_) {
    const std::string& word = arguments_[at_];
    if (!word.starts_with('-') || word == "-") break;
    ++at_;
    separator_ = word == "--";
    if (!separator_) take(word, words);
  }
  return words;
}

std::vector<std::string> CommandLine::rest() const {
  return {arguments_.begin() + static_cast<std::ptrdiff_t>(at_), arguments_.end()};
}

}  // namespace c10dd::run
