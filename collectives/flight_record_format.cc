// SPDX-License-Identifier: Apache-2.0
// The format of PyTorch's flight records, version 2.10
// (torch/csrc/distributed/c10d/FlightRecorder.hpp). The keys rank, job, host, pid, why, written_ns,
// id, kind and arguments are c10dd's; other readers ignore them. Readers know operations by NCCL's
// names only, so all backends use these.
#include <algorithm>
#include <iterator>

#include "collectives/flight_log.h"
#include "collectives/pickle_writer.h"
#include "protocol/format.h"
#include "protocol/utf8.h"

namespace c10dd::collectives {
namespace {

using Clock = CollectiveCall::Clock;

constexpr std::string_view kVersion = "2.10";
constexpr std::size_t kWhyBytes = 2048;

/// By DType.
constexpr std::string_view kTorchTypes[] = {"Char", "Short", "Int",      "Long",  "Byte",
                                            "Bool", "Half",  "BFloat16", "Float", "Double"};
static_assert(std::size(kTorchTypes) == kDTypes);

std::string list_of(const std::vector<Rank>& ranks) {
  std::string text = "[";
  for (const Rank rank : ranks) text += (text.size() > 1 ? ", " : "") + std::to_string(rank);
  return text + "]";
}

/// A group, and what its operations need of it.
struct Written {
  const FlownGroup* group;
  std::string name;
  std::vector<Rank> ranks;  ///< in the job, ascending

  /// Returns the place of a rank of the group in the order of ranks in the job, by which the format
  /// numbers the ends of a message; -1 for any.
  std::int64_t place_of(Rank rank) const {
    const auto& members = group->world.members;
    if (rank >= group->world.size) return -1;
    const Rank job_rank = rank < members.size() ? members[rank].job_rank : rank;
    return std::ranges::lower_bound(ranks, job_rank) - ranks.begin();
  }
};

class RecordWriter {
 public:
  explicit RecordWriter(const FlightStamp& stamp) : stamp_(stamp) {}

  std::string write(const std::map<std::uint64_t, FlownGroup>& groups,
                    const std::vector<FlownOperation>& operations) {
    std::map<std::uint64_t, Written> written;
    for (const auto& [number, group] : groups) {
      written[number] = {&group, group.name(), group.job_ranks()};
    }
    out_.begin_dict();
    out_.text("version").text(kVersion);
    const FlownGroup& first = groups.begin()->second;
    out_.text("rank").integer(first.job_rank()).text("job").text(printable_name(first.job));
    out_.text("host").text(printable_name(stamp_.host));
    out_.text("pid").integer(static_cast<std::int64_t>(stamp_.pid));
    out_.text("why").text(printable(stamp_.why, kWhyBytes));
    out_.text("written_ns").integer(stamp_.written);
    out_.text("pg_config").begin_dict();
    for (const auto& [number, group] : written) write_group(group);
    out_.end_dict().text("pg_status").begin_dict().end_dict();
    out_.text("entries").begin_list();
    // As if the process had no other ranks, whose operations count as well.
    std::uint64_t record = operations.empty() ? 0 : operations.front().ticket - 1;
    for (const FlownOperation& one : operations) {
      const auto group = written.find(one.group);
      if (group != written.end()) write_operation(one, group->second, record++);
    }
    out_.end_list().end_dict();
    return out_.take();
  }

 private:
  void write_group(const Written& of) {
    out_.text(of.name).begin_dict();
    out_.text("name").text(of.name).text("desc").text(printable_name(of.group->world.name));
    out_.text("ranks").text(list_of(of.ranks));
    out_.text("kind").text(printable_name(of.group->world.kind));
    if (of.group->process_group != 0) {
      out_.text("id").text(format("{:016x}", of.group->process_group));
    }
    out_.end_dict();
  }

  void write_operation(const FlownOperation& one, const Written& of, std::uint64_t record) {
    const bool message = one.is_message();
    const auto number = [](std::uint64_t value) { return static_cast<std::int64_t>(value); };
    out_.begin_dict();
    out_.text("record_id").integer(number(record));
    out_.text("pg_id").integer(number(one.group));
    out_.text("process_group").text(of.name).text(printable_name(of.group->world.name)).pair();
    out_.text("collective_seq_id").integer(number(message ? one.others : one.sequence));
    out_.text("p2p_seq_id").integer(number(message ? one.sequence : one.others));
    out_.text("op_id").integer(number(one.ticket)).text("is_p2p").boolean(message);
    out_.text("profiling_name").text(profiling_name(one, of));
    out_.text("arguments").text(text_of(one.arguments));
    write_tensors("input_sizes", "input_dtypes", one.inputs, one);
    write_tensors("output_sizes", "output_dtypes", one.outputs, one);
    write_times(one);
    out_.end_dict();
  }

  /// c10dd's tensors have no shape. A list of tensors is written as one.
  void write_tensors(std::string_view sizes, std::string_view types, std::uint64_t elements,
                     const FlownOperation& of) {
    out_.text(sizes).begin_list();
    if (elements > 0) {
      out_.begin_list().integer(static_cast<std::int64_t>(elements)).end_list();
    }
    out_.end_list().text(types).begin_list();
    if (elements > 0) out_.text(kTorchTypes[static_cast<std::size_t>(of.arguments.dtype)]);
    out_.end_list();
  }

  void write_times(const FlownOperation& one) {
    constexpr Clock::time_point kNever{};
    const bool is_over = one.finished != kNever;
    // A message of the wrong size has failed, but its group goes on.
    const bool goes_on = one.is_message() && one.outcome == Code::size_mismatch;
    const bool completed = is_over && (one.outcome == Code::ok || goes_on);
    const bool has_begun = one.begun != kNever;
    out_.text("state").text(completed ? "completed" : has_begun ? "started" : "scheduled");
    out_.text("retired").boolean(is_over);
    out_.text("time_created_ns").integer(wall(one.issued));
    write_time("time_discovered_started_ns", one.begun);
    write_time("time_discovered_completed_ns", completed ? one.finished : kNever);
    if (completed && has_begun) {
      const std::chrono::duration<double, std::milli> took = one.finished - one.begun;
      out_.text("duration_ms").number(took.count());
    }
    const auto timeout = std::chrono::duration_cast<std::chrono::milliseconds>(one.timeout);
    out_.text("timeout_ms").integer(timeout.count());
  }
  void write_time(std::string_view name, Clock::time_point time) {
    out_.text(name);
    time == Clock::time_point{} ? out_.none() : out_.integer(wall(time));
  }
  std::int64_t wall(Clock::time_point time) const {
    return stamp_.written - std::chrono::duration_cast<Duration>(stamp_.now - time).count();
  }

  static std::string profiling_name(const FlownOperation& one, const Written& of) {
    const std::string_view name = name_of(one.arguments.collective);
    if (!one.is_message()) return format("nccl:{}", name);
    const bool receives = one.arguments.collective == Collective::recv;
    return format("nccl:{} {}{}{}", name, of.place_of(of.group->world.rank), receives ? "<-" : "->",
                  of.place_of(one.arguments.rank));
  }

  const FlightStamp& stamp_;
  PickleWriter out_;
};

}  // namespace

std::string flight_record_of(const std::map<std::uint64_t, FlownGroup>& groups,
                             const std::vector<FlownOperation>& operations,
                             const FlightStamp& stamp) {
  return RecordWriter(stamp).write(groups, operations);
}

}  // namespace c10dd::collectives
