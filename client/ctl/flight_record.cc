// SPDX-License-Identifier: Apache-2.0
#include "client/ctl/flight_record.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <functional>
#include <map>
#include <utility>

#include "client/ctl/flight_values.h"
#include "protocol/format.h"
#include "protocol/limits.h"
#include "protocol/utf8.h"

namespace c10dd::ctl {
namespace {

using OpState = FlightOperation::State;

constexpr std::size_t kTextShown = 64;        // bytes of a text in an error
constexpr std::size_t kCoalescedBytes = 512;  // of the text of calls that are coalesced

std::string in_quotes(std::string_view text) { return '"' + printable(text, kTextShown) + '"'; }

template <class... T>
Failure invalid(fmt::format_string<T...> text, T&&... values) {
  return failure(Code::invalid_argument, text, std::forward<T>(values)...);
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
    if (auto done = read_groups(root); !done) return done.error();
    if (auto done = read_entries(root); !done) return done.error();
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

  Result<void> read_groups(const PlainValue& root) {
    const PlainValue* const config = root.member("pg_config");
    const auto parts = config == nullptr ? std::span<const PlainValue>() : config->items();
    for (std::size_t i = 0; i + 1 < parts.size(); i += 2) {
      const PlainValue& one = parts[i + 1];
      const std::string* const name = text_in(one, "name");
      const PlainValue* const listed = one.member("ranks");
      if (name == nullptr || listed == nullptr) {
        return failure(Code::invalid_argument, "its pg_config has a group without name or ranks");
      }
      auto ranks = ranks_in(*listed);
      if (!ranks) {
        return invalid(
            "its group {} has ranks that c10ddctl cannot read; expected numbers below {}",
            in_quotes(*name), limits::kWorldSize);
      }
      if (name->empty()) {
        record_.newest_group = std::move(*ranks);
        continue;
      }
      FlightGroup& group = group_of(*name);
      group.ranks = std::move(*ranks);
      if (const std::string* const text = text_in(one, "desc")) group.description = *text;
      if (const std::string* const text = text_in(one, "id")) group.identity = *text;
    }
    return {};
  }

  Result<void> read_entries(const PlainValue& root) {
    const PlainValue* const entries = root.member("entries");
    if (entries == nullptr) return {};  // JSON without operations
    if (!entries->is_list()) return failure(Code::invalid_argument, "its entries are no list");
    for (std::size_t i = 0; i < entries->items().size(); ++i) {
      const std::string_view lacks = read_entry(entries->items()[i]);
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
    group.number = std::max(group.number, integer_in(entry, "pg_id", -1));
    const std::int64_t created = integer_in(entry, "time_created_ns", 0);
    record_.newest = std::max(record_.newest, created);
    const std::string_view name = operation_in(*profiling_name);
    if (message) {
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
