// SPDX-License-Identifier: Apache-2.0
#include "client/ctl/flight_record.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include "client/ctl/flight_values.h"
#include "protocol/format.h"
#include "protocol/limits.h"
#include "protocol/parse.h"
#include "protocol/utf8.h"

namespace c10dd::ctl {
namespace {

using OpState = FlightOperation::State;

constexpr std::size_t kTextShown = 64;        // bytes of a text in an error
constexpr std::size_t kOddGroups = 16;        // named for one record
constexpr std::size_t kCoalescedBytes = 512;  // of the text of calls that are coalesced

std::string in_quotes(std::string_view text) { return '"' + printable(text, kTextShown) + '"'; }

template <class... T>
Failure invalid(fmt::format_string<T...> text, T&&... values) {
  return failure(Code::invalid_argument, text, std::forward<T>(values)...);
}

/// Returns a member that is an integer, in JSON also as a text; otherwise -1.
std::int64_t number_in(const PlainValue& of, std::string_view name) {
  const std::string* const text = text_in(of, name);
  if (text == nullptr) return integer_in(of, name, -1);
  return parse_number<std::int64_t>(*text).value_or(-1);
}

/// Reads one record.
class RecordReader {
 public:
  Result<FlightRecord> read(const PlainValue& root) {
    const std::string* const version = text_in(root, "version");
    if (version == nullptr) {
      return failure(Code::invalid_argument, "it has no version; is it a flight record?");
    }
    if (!version->starts_with("2.")) {
      return invalid("it has format {}; c10ddctl reads the formats 2.x", in_quotes(*version));
    }
    read_process(root);
    read_groups(root);
    if (auto done = read_entries(root); !done) return done.error();
    read_status(root);
    doubt_ranks();
    find_oldest();
    return std::move(record_);
  }

 private:
  void read_process(const PlainValue& root) {
    const std::int64_t rank = integer_in(root, "rank", -1);
    if (rank >= 0 && rank < limits::kWorldSize) record_.rank = static_cast<std::uint32_t>(rank);
    if (const std::string* const job = text_in(root, "job")) record_.job = *job;
    if (const std::string* const host = text_in(root, "host")) record_.host = *host;
    record_.pid = static_cast<std::uint64_t>(std::max<std::int64_t>(0, integer_in(root, "pid", 0)));
    record_.written = integer_in(root, "written_ns", 0);
  }

  /// PyTorch's Gloo numbers the ranks inside of each group, so 0 to n - 1 tells only how many there
  /// are. In the default group it is the same.
  void doubt_ranks() {
    for (const std::size_t place : of_gloo_) {
      FlightGroup& group = record_.groups[place];
      const bool inside = !group.ranks.empty() && group.ranks.back() + 1 == group.ranks.size();
      if (inside && !group.is_default()) group.ranks.clear();
    }
  }

  void find_oldest() {
    for (const FlightGroup& group : record_.groups) {
      std::optional<std::int64_t> first;
      for (const FlightOperation& one : group.operations) {
        if (!one.is_over()) first = std::min(first.value_or(one.created), one.created);
      }
      if (first) record_.oldest.emplace_back(*first, group.name);
    }
    const std::size_t kept = std::min<std::size_t>(record_.oldest.size(), 2);
    const auto middle = record_.oldest.begin() + static_cast<std::ptrdiff_t>(kept);
    std::partial_sort(record_.oldest.begin(), middle, record_.oldest.end());
    record_.oldest.resize(kept);
  }

  void read_groups(const PlainValue& root) {
    const PlainValue* const config = root.member("pg_config");
    const auto parts = config == nullptr ? std::span<const PlainValue>() : config->items();
    for (std::size_t i = 0; i + 1 < parts.size(); i += 2) read_group(parts[i], parts[i + 1]);
  }

  void read_group(const PlainValue& key, const PlainValue& one) {
    const std::string* const name = text_in(one, "name");
    const PlainValue* const listed = one.member("ranks");
    if (name == nullptr || listed == nullptr) {
      const std::string which =
          key.if_text() == nullptr ? "a group" : "its group " + in_quotes(*key.if_text());
      return add_odd(format("{}, which has no {} that c10ddctl can read", which,
                            name == nullptr ? "name" : "ranks"));
    }
    auto ranks = ranks_in(*listed);
    if (name->empty()) {
      if (ranks) record_.newest_size = ranks->size();
      return;
    }
    FlightGroup& group = group_of(*name);
    if (const std::string* const text = text_in(one, "desc")) group.description = *text;
    if (const std::string* const text = text_in(one, "id")) group.identity = *text;
    if (ranks) {
      group.ranks = std::move(*ranks);
      return;
    }
    const std::string* const text = listed->if_text();
    add_odd(format(
        "the ranks of its group {}, which are {}; expected a list of numbers below {}, "
        "such as \"[0, 1]\"",
        in_quotes(*name), text == nullptr ? "no list" : in_quotes(*text), limits::kWorldSize));
  }

  void add_odd(std::string what) {
    if (record_.odd.size() < kOddGroups) record_.odd.push_back(std::move(what));
  }

  /// Reads how far each group has come. That tells of groups whose operations are no longer in the
  /// record; but it names a group by its number only.
  void read_status(const PlainValue& root) {
    const PlainValue* const status = root.member("pg_status");
    const auto parts = status == nullptr ? std::span<const PlainValue>() : status->items();
    for (std::size_t i = 0; i + 1 < parts.size(); i += 2) {
      const std::string* const number = parts[i].if_text();
      const auto read = number == nullptr ? std::nullopt : parse_number<std::uint32_t>(*number);
      if (!read) continue;
      const std::int64_t issued = number_in(parts[i + 1], "last_enqueued_collective");
      const auto named = numbers_.find(*read);
      if (named == numbers_.end()) {
        record_.unnamed.push_back({*read, issued});
        continue;
      }
      FlightGroup& group = record_.groups[named->second];
      // Messages may count there, too.
      if (group.number == *read && !with_messages_.contains(named->second)) group.issued = issued;
    }
    record_.lost_older = parts.empty() && lacks_first_;
    name_unnamed();
  }

  /// Both are in the order in which the process has made its groups, if PyTorch has named them.
  void name_unnamed() {
    std::map<std::uint64_t, std::size_t> left;  // by name
    for (std::size_t at = 0; at < record_.groups.size(); ++at) {
      if (record_.groups[at].number >= 0) continue;
      const auto name = parse_number<std::uint64_t>(record_.groups[at].name);
      if (!name) return;
      left.emplace(*name, at);
    }
    if (left.size() != record_.unnamed.size()) return;
    std::ranges::sort(record_.unnamed, {}, &FlightUnnamed::number);
    auto next = record_.unnamed.begin();
    for (const auto& [name, at] : left) {
      record_.groups[at].number = next->number;
      record_.groups[at].issued = (next++)->issued;
    }
    record_.unnamed.clear();
  }
  Result<void> read_entries(const PlainValue& root) {
    const PlainValue* const entries = root.member("entries");
    if (entries == nullptr) return {};  // JSON without operations
    if (!entries->is_list()) return failure(Code::invalid_argument, "its entries are no list");
    const auto& all = entries->items();
    lacks_first_ = !all.empty() && integer_in(all.front(), "record_id", 0) > 0;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const std::string_view lacks = read_entry(all[i]);
      if (!lacks.empty()) return invalid("its entry {} has no {} that c10ddctl can read", i, lacks);
    }
    return {};
  }

  /// Returns what the entry lacks, or nothing.
  std::string_view read_entry(const PlainValue& entry) {
    const PlainValue* const process_group = entry.member("process_group");
    const auto names =
        process_group == nullptr ? std::span<const PlainValue>() : process_group->items();
    if (names.empty() || names[0].if_text() == nullptr) return "process_group";
    const std::string* const profiling_name = text_in(entry, "profiling_name");
    if (profiling_name == nullptr) return "profiling_name";
    const std::optional<OpState> state = state_of(entry, *profiling_name);
    if (!state) return "state";
    const bool message = boolean_in(entry, "is_p2p");
    const char* const counted = message ? "p2p_seq_id" : "collective_seq_id";
    const std::int64_t sequence = integer_in(entry, counted, -1);
    if (sequence < 0) return counted;

    FlightGroup& group = group_of(*names[0].if_text());
    if (group.description.empty() && names.size() > 1 && names[1].if_text() != nullptr) {
      group.description = *names[1].if_text();
    }
    const std::size_t place = groups_.at(group.name);
    const std::int64_t number = integer_in(entry, "pg_id", -1);
    group.number = std::max(group.number, number);
    numbers_.emplace(number, place);
    if (profiling_name->starts_with("gloo:")) of_gloo_.insert(place);
    const std::int64_t created = integer_in(entry, "time_created_ns", 0);
    record_.newest = std::max(record_.newest, created);
    const std::string_view name = operation_in(*profiling_name);
    if (message) {
      with_messages_.insert(place);
      add_message(group, name, static_cast<std::uint64_t>(sequence), *state, created);
    } else {
      add(group, {.sequence = static_cast<std::uint64_t>(sequence),
                  .call = call_of(called(name, entry)),
                  .line = line_of(line_in(entry)),
                  .state = *state,
                  .begun = *text_in(entry, "state") == "started",
                  .created = created});
    }
    return {};
  }

  static std::optional<OpState> state_of(const PlainValue& entry, std::string_view profiling_name) {
    const std::string* const state = text_in(entry, "state");
    if (state == nullptr) return std::nullopt;
    if (*state == "completed") return OpState::completed;
    if (*state != "started" && *state != "scheduled") return std::nullopt;
    if (boolean_in(entry, "retired")) {
      // PyTorch sees when NCCL completes, but not when Gloo does.
      const bool sees_completion =
          profiling_name.starts_with("nccl:") || profiling_name.starts_with("xccl:");
      return sees_completion ? OpState::given_up : OpState::ended;
    }
    return *state == "started" ? OpState::started : OpState::issued;
  }

  FlightGroup& group_of(const std::string& name) {
    const auto [found, is_new] = groups_.try_emplace(name, record_.groups.size());
    if (is_new) record_.groups.push_back({.name = name});
    return record_.groups[found->second];
  }
  std::uint32_t call_of(FlightCall call) {
    const auto next = static_cast<std::uint32_t>(record_.calls.size());
    const auto [found, is_new] = calls_.try_emplace({call.name, call.text}, next);
    if (is_new) record_.calls.push_back(std::move(call));
    return found->second;
  }
  std::uint32_t line_of(std::string line) {
    const auto next = static_cast<std::uint32_t>(record_.lines.size());
    const auto [found, is_new] = lines_.try_emplace(line, next);
    if (is_new) record_.lines.push_back(std::move(line));
    return found->second;
  }

  void add(FlightGroup& group, const FlightOperation& one) {
    auto& all = group.operations;
    if (all.empty() || one.sequence > all.back().sequence) return all.push_back(one);
    if (one.sequence == all.back().sequence) return coalesce(all.back(), one);
    const auto at = std::ranges::lower_bound(all, one.sequence, {}, &FlightOperation::sequence);
    // Two threads may record in another order than they issue. Otherwise the sequences begin again,
    // because the group was made again.
    const bool again = at == all.begin() || at->sequence == one.sequence;
    if (!again) {
      all.insert(at, one);
      return;
    }
    all.assign(1, one);
    group.messages.clear();
  }

  /// The last of several operations says what became of all.
  void coalesce(FlightOperation& so_far, const FlightOperation& one) {
    const FlightCall& before = record_.calls[so_far.call];
    FlightCall all = record_.calls[one.call];
    all.for_all = all.for_all && before.for_all;
    all.text = before.text.size() < kCoalescedBytes ? before.text + ", " + all.text : before.text;
    const std::int64_t created = so_far.created;
    so_far = one;
    so_far.created = created;
    so_far.call = call_of(std::move(all));
  }

  void add_message(FlightGroup& group, std::string_view name, std::uint64_t sequence, OpState state,
                   std::int64_t created) {
    const bool over = state >= OpState::ended;
    if (name == "coalesced") {
      const auto same = [&](const FlightMessage& one) { return one.sequence == sequence; };
      if (over) std::erase_if(group.messages, same);
      return;
    }
    const std::optional<FlightMessage> read = message_in(name);
    if (over || !read) return;
    group.messages.push_back(*read);
    group.messages.back().sequence = sequence;
    group.messages.back().created = created;
  }

  FlightRecord record_{.groups = {}, .calls = {}, .lines = {""}};
  std::map<std::string, std::size_t> groups_;
  std::map<std::int64_t, std::size_t> numbers_;  // places of groups by FlightGroup::number
  std::set<std::size_t> with_messages_;          // places of groups
  std::set<std::size_t> of_gloo_;                // places of groups
  bool lacks_first_ = false;  // its first entry is not the first one of the process
  std::map<std::pair<std::string, std::string>, std::uint32_t> calls_;
  std::map<std::string, std::uint32_t> lines_{{"", 0}};
};

}  // namespace

Result<FlightRecord> read_flight_record(std::string_view bytes) {
  const Result<PlainValue> root = read_plain_value(bytes);
  if (!root) return root.error();
  return RecordReader().read(*root);
}

}  // namespace c10dd::ctl
