// SPDX-License-Identifier: Apache-2.0
#include "client/ctl/flight_files.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "client/ctl/flight_values.h"
#include "protocol/format.h"
#include "protocol/limits.h"
#include "protocol/parse.h"
#include "protocol/utf8.h"

namespace c10dd::ctl {
namespace {

namespace fs = std::filesystem;

constexpr std::uintmax_t kFileBytes = 256 * 1024 * 1024;
constexpr std::size_t kFirstBytes = 16;
constexpr std::string_view kEndings[] = {".json", ".pickle", ".pkl"};

/// Returns the rank in which the name of a file ends.
std::optional<Rank> rank_in(std::string name) {
  for (const std::string_view ending : kEndings) {
    if (name.ends_with(ending)) name.resize(name.size() - ending.size());
  }
  const std::size_t digits = name.find_last_not_of("0123456789") + 1;  // of npos: 0
  const auto rank = parse_number<Rank>(std::string_view(name).substr(digits));
  return rank && *rank < limits::kWorldSize ? rank : std::nullopt;
}

std::int64_t time_written(const fs::path& path) {
  std::error_code failed;
  const fs::file_time_type time = fs::last_write_time(path, failed);
  if (failed) return 0;
  const auto since = fs::file_time_type::clock::to_sys(time).time_since_epoch();
  const auto written = std::chrono::duration_cast<std::chrono::nanoseconds>(since).count();
  return std::max<std::int64_t>(written, 0);
}

std::int64_t now() {
  const auto since = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(since).count();
}

std::string reason_of(const std::error_code& failed) {
  return failed ? failed.message() : "there is no such file";
}

/// Returns the bytes of a file, or why it cannot be read.
Result<std::string> bytes_of(const fs::path& path) {
  const auto refuse = [](std::string_view why) {
    return failure(Code::invalid_argument, "{}", why);
  };
  std::error_code failed;
  const fs::file_status status = fs::status(path, failed);
  if (!fs::exists(status)) return refuse(reason_of(failed));
  if (!fs::is_regular_file(status)) return refuse("it is no file");
  const std::uintmax_t size = fs::file_size(path, failed);
  if (failed) return refuse(failed.message());
  if (size > kFileBytes) {
    return failure(Code::invalid_argument, "it has {} bytes, the limit is {}", size, kFileBytes);
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) return refuse(std::strerror(errno));
  std::string bytes(static_cast<std::size_t>(size), '\0');
  file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  bytes.resize(static_cast<std::size_t>(std::max<std::streamsize>(0, file.gcount())));
  return bytes;
}

/// Returns whether a file of a folder looks like a record. One that cannot be read does, so that it
/// is named.
bool may_be_record(const fs::path& path) {
  if (!rank_in(path.filename())) return false;
  std::ifstream file(path, std::ios::binary);
  std::string first(kFirstBytes, '\0');
  file.read(first.data(), static_cast<std::streamsize>(first.size()));
  first.resize(static_cast<std::size_t>(std::max<std::streamsize>(0, file.gcount())));
  return first.empty() || may_be_flight_record(first);
}

class Files {
 public:
  FlightFiles read(const std::vector<std::string>& paths) {
    for (const std::string& path : paths) {
      std::error_code failed;
      fs::is_directory(path, failed) ? read_folder(path) : read_file(path);
    }
    leave_old_out();
    return std::move(out_);
  }

 private:
  void read_folder(const fs::path& folder) {
    std::error_code failed;
    std::vector<fs::path> files;
    std::size_t others = 0;
    for (fs::directory_iterator at(folder, failed), end; !failed && at != end;
         at.increment(failed)) {
      std::error_code unknown;
      const fs::file_type type = fs::status(at->path(), unknown).type();
      const bool broken = type == fs::file_type::none || type == fs::file_type::not_found;
      if (broken && rank_in(at->path().filename())) add_odd(at->path(), reason_of(unknown));
      if (type != fs::file_type::regular) continue;
      if (may_be_record(at->path())) {
        files.push_back(at->path());
      } else {
        ++others;
      }
    }
    if (failed) add_odd(folder, failed.message());
    if (files.empty() && !failed) {
      add_odd(folder, format("none of its {} files is a flight record; their names end in "
                             "the rank, as in PREFIX12",
                             others));
    }
    out_.others += others;
    std::ranges::sort(files);
    const std::size_t before = out_.records.size();
    for (const fs::path& file : files) read_file(file);
    from_folder_.resize(before);
    from_folder_.resize(out_.records.size(), true);
  }

  void leave_old_out() {
    from_folder_.resize(out_.records.size());
    const std::int64_t future = now() + FlightFiles::kFuture;
    const auto is_possible = [&](const RankRecord& one) { return one.written <= future; };
    // If all are, it is the clock of this machine that is wrong.
    const bool future_out = std::ranges::any_of(out_.records, is_possible);
    std::int64_t newest = 0;
    for (const RankRecord& one : out_.records) {
      if (!future_out || is_possible(one)) newest = std::max(newest, one.written);
    }
    std::vector<RankRecord> kept;
    for (std::size_t at = 0; at < out_.records.size(); ++at) {
      RankRecord& one = out_.records[at];
      const bool old = one.written != 0 && newest - one.written > FlightFiles::kOld;
      if (future_out && !is_possible(one)) {
        out_.odd.push_back(
            format("left out {}: it was written in the future, as its time says; check the clocks",
                   one.file));
      } else if (old && from_folder_[at]) {
        out_.old.push_back(one.file);
      } else {
        kept.push_back(std::move(one));
      }
    }
    out_.records = std::move(kept);
  }

  void read_file(const fs::path& path) {
    Result<std::string> bytes = bytes_of(path);
    if (!bytes) return add_odd(path, bytes.error().detail);
    if (bytes->empty()) return add_odd(path, "it is empty; its disk may have been full");
    Result<FlightRecord> record = read_flight_record(*bytes);
    if (!record) return add_odd(path, record.error().detail);
    const std::optional<Rank> rank = record->rank ? record->rank : rank_in(path.filename());
    if (!rank) {
      return add_odd(path, format("its name does not end in a rank below {}, as PREFIX12 does",
                                  limits::kWorldSize));
    }
    RankRecord& one = out_.records.emplace_back();
    one.file = printable(path.string(), limits::kForeignTextBytes);
    one.rank = *rank;
    one.record = std::move(*record);
    one.written = one.record.written > 0 ? one.record.written : time_written(path);
  }

  void add_odd(const fs::path& path, std::string_view why) {
    out_.odd.push_back(
        format("cannot read {}: {}", printable(path.string(), limits::kForeignTextBytes), why));
  }

  FlightFiles out_;
  std::vector<bool> from_folder_;  // by place in out_.records, as far as there are any
};

}  // namespace

FlightFiles read_flight_files(const std::vector<std::string>& paths) { return Files().read(paths); }

}  // namespace c10dd::ctl
