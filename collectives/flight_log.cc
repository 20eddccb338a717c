// SPDX-License-Identifier: Apache-2.0
#include "collectives/flight_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>

#include "protocol/format.h"
#include "protocol/utf8.h"

namespace c10dd::collectives {
namespace {

constexpr std::size_t kJobBytes = 64;  // in the name of a file
constexpr mode_t kMode = 0644;         // whoever looks into the hang may read it

/// Returns a name that can be a part of a file's name.
std::string in_file_name(std::string_view job) {
  std::string out(job.substr(0, kJobBytes));
  for (char& c : out) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '_' || c == '-';
    if (!plain) c = '_';
  }
  return out.empty() ? "job" : out;
}

/// Writes a whole file. Returns 0 or the number of the error.
int write_file(const std::string& path, std::string_view bytes) {
  ::unlink(path.c_str());
  // A link that somebody else has put there is not followed.
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kMode);
  if (file < 0) return errno;
  int error = 0;
  while (error == 0 && !bytes.empty()) {
    const ssize_t written = ::write(file, bytes.data(), bytes.size());
    if (written > 0) bytes.remove_prefix(static_cast<std::size_t>(written));
    if (written < 0 && errno != EINTR) error = errno;
  }
  if (::close(file) != 0 && error == 0) error = errno;
  return error;
}

/// Replaces a file as a whole. Returns 0 or the number of the error.
int replace_file(const std::string& path, std::string_view bytes) {
  const std::string next = format("{}.{}.tmp", path, ::getpid());
  int error = write_file(next, bytes);
  if (error == 0 && std::rename(next.c_str(), path.c_str()) != 0) error = errno;
  if (error != 0) ::unlink(next.c_str());
  return error;
}

void complain(const std::string& path, int error) {
  static std::atomic<bool> has_complained = false;
  if (has_complained.exchange(true)) return;
  std::fprintf(
      stderr,
      "c10dd: cannot write the flight record %s: %s; set C10DD_FLIGHT_DIR to a folder with "
      "room\n",
      printable(path, path.size()).c_str(), std::strerror(error));
}

}  // namespace

Rank FlownGroup::job_rank() const {
  return world.rank < world.members.size() ? world.members[world.rank].job_rank : world.rank;
}

std::vector<Rank> FlownGroup::job_ranks() const {
  std::vector<Rank> ranks;
  for (Rank rank = 0; rank < world.size; ++rank) {
    ranks.push_back(rank < world.members.size() ? world.members[rank].job_rank : rank);
  }
  std::ranges::sort(ranks);
  return ranks;
}

std::string FlownGroup::name() const {
  const std::string name = printable_name(world.name);
  return world.generation == 0 ? name : format("{} (generation {})", name, world.generation);
}

std::shared_ptr<FlightLog> FlightLog::of_this_process() {
  // A forked process leaks the one of its parent, whose locks may be held for ever.
  static std::atomic<std::shared_ptr<FlightLog>*> newest = nullptr;
  std::shared_ptr<FlightLog>* log = newest.load();
  if (log == nullptr || (*log)->home_.forked()) {
    auto* const made = new std::shared_ptr<FlightLog>(std::make_shared<FlightLog>());
    if (newest.compare_exchange_strong(log, made)) return *made;
    delete made;
  }
  return *log;
}

std::uint64_t FlightLog::add(FlownGroup group) {
  const std::lock_guard lock(mutex_);
  groups_.emplace(++groups_made_, std::move(group));
  return groups_made_;
}

void FlightLog::identify(std::uint64_t group, std::uint64_t process_group) {
  const std::lock_guard lock(mutex_);
  if (const auto found = groups_.find(group); found != groups_.end()) {
    found->second.process_group = process_group;
  }
}

void FlightLog::remove(std::uint64_t group) {
  if (home_.forked()) return;
  const std::lock_guard lock(mutex_);
  groups_.erase(group);
}

std::vector<std::string> FlightLog::dump(const std::string& folder, const std::string& why) {
  const std::lock_guard one_at_a_time(dumping_);
  // Threads of one process may be ranks of one job.
  std::map<std::pair<std::string, Rank>, std::map<std::uint64_t, FlownGroup>> processes;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [number, group] : groups_) {
      processes[{group.job, group.job_rank()}].emplace(number, group);
    }
  }
  FlightStamp stamp;
  stamp.why = why;
  stamp.pid = static_cast<std::uint64_t>(::getpid());
  const auto wall = std::chrono::system_clock::now().time_since_epoch();
  stamp.written = std::chrono::duration_cast<Duration>(wall).count();
  stamp.now = CollectiveCall::Clock::now();
  const std::vector<FlownOperation> operations = ring_.read();
  std::vector<std::string> written;
  for (const auto& [process, groups] : processes) {
    const World& world = groups.begin()->second.world;
    if (world.rank < world.members.size()) stamp.host = world.members[world.rank].process.host;
    std::string path =
        format("{}/c10dd-flight-{}-{}", folder, in_file_name(process.first), process.second);
    const int error = replace_file(path, flight_record_of(groups, operations, stamp));
    error == 0 ? written.push_back(std::move(path)) : complain(path, error);
  }
  return written;
}

}  // namespace c10dd::collectives
