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
void check(const TorchrunFlag& flag, const Written& written) {
  for (const std::string_view value : flag.accepted) {
    if (value == "*" || value == written.value) return;
  }
  refuse(format("{}{} is an option of torchrun: {}", written.name,
                written.value ? " " + printable(*written.value, kQuotedBytes) : "", flag.instead));
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
  if (option == nullptr) return check(*torchrun, written);
  if (const auto* flag = std::get_if<bool Words::*>(&option->word)) {
    words.** flag = true;
  } else if (const auto* text = std::get_if<std::string Words::*>(&option->word)) {
    words.** text = *written.value;
  } else {
    (words.*std::get<std::vector<std::string> Words::*>(option->word)).push_back(*written.value);
  }
}

Words CommandLine::parse() {
  Words words;
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
