// SPDX-License-Identifier: Apache-2.0
#include "daemon/shard/disk_watch.h"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <string_view>
#include <utility>

#include "daemon/config/option_values.h"
#include "daemon/shard/log_line.h"

namespace c10dd::daemon {
namespace {

constexpr std::chrono::milliseconds kInterval{500};
constexpr std::chrono::milliseconds kShortInterval{200};  // while room is short
constexpr unsigned kRelieveEvery = 2;                     // measurements with kShortInterval

constexpr std::string_view kRoomNames[] = {"enough", "little", "none"};

std::string_view name_of_room(core::DiskRoom room) {
  return kRoomNames[static_cast<std::size_t>(room)];
}

}  // namespace

DiskWatch::DiskWatch(boost::asio::io_context& loop, const Options& options, core::GrowthGate& gate,
                     Metrics& metrics, Engine engine)
    : timer_(loop),
      gate_(gate),
      metrics_(metrics),
      engine_(std::move(engine)),
      ballast_bytes_(options.disk_ballast),
      wanted_reserve_(options.disk_reserve),
      minimum_(options.disk_minimum) {
  path_ = state_path(options);
  if (!path_.empty()) ballast_ = path_ + "/ballast";
}

void DiskWatch::start() {
  struct statvfs disk {};
  if (path_.empty() || ::statvfs(path_.c_str(), &disk) != 0) return;
  const std::uint64_t size = std::uint64_t{disk.f_blocks} * disk.f_frsize;
  reserve_ = wanted_reserve_.value_or(std::max<std::uint64_t>(size / 20, limits::kDiskReserve));
  minimum_ = std::min(minimum_, reserve_);
  gate_.watch("disk of " + path_, reserve_, minimum_);
  look();
}

void DiskWatch::look() {
  const std::optional<std::uint64_t> known = free_bytes();
  if (!known) return check_again_later();
  const std::uint64_t free = *known;
  gate_.set_free(free, engine_.needs());
  const core::DiskRoom room = gate_.room();
  metrics_.disk(free, room != core::DiskRoom::enough);
  if (room != std::exchange(room_, room)) {
    log_as(room == core::DiskRoom::enough ? LogLevel::info : LogLevel::warn,
           "event=disk_room path={} room={} free={} reserve={} minimum={}", path_,
           name_of_room(room), free, reserve_, minimum_);
  }
  short_for_ = room == core::DiskRoom::enough ? 0 : short_for_ + 1;
  if (short_for_ % kRelieveEvery == 1 || (short_for_ == 0 && stuck_)) relieve();
  if (room == core::DiskRoom::enough) keep_ballast(free);
  check_again_later();
}

void DiskWatch::check_again_later() {
  timer_.expires_after(room_ == core::DiskRoom::enough ? kInterval : kShortInterval);
  timer_.async_wait([this](const boost::system::error_code& cancelled) {
    if (!cancelled) look();
  });
}

/// Writes the ballast file if it is missing and the free space is at least the reserve plus three
/// times the size of the file. With less space, the file would soon have to be removed again.
void DiskWatch::keep_ballast(std::uint64_t free) {
  if (ballast_bytes_ == 0 || free < reserve_ + 3 * ballast_bytes_) return;
  if (::access(ballast_.c_str(), F_OK) == 0) return;
  const int file = ::open(ballast_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file < 0) return;
  const int failed = ::posix_fallocate(file, 0, static_cast<off_t>(ballast_bytes_));
  ::close(file);
  if (failed != 0) ::unlink(ballast_.c_str());
}

std::optional<std::uint64_t> DiskWatch::free_bytes() const {
  struct statvfs disk {};
  if (path_.empty() || ::statvfs(path_.c_str(), &disk) != 0) return std::nullopt;
  return std::uint64_t{disk.f_bavail} * disk.f_frsize;
}

void DiskWatch::engine_failed() {
  const std::optional<std::uint64_t> free = free_bytes();
  if (free && *free < minimum_) give_up_ballast(*free);
}

/// Asks the engine to free the space of removed rows. If the engine's previous attempt did
/// not succeed and the free space is below the reserve, removes the ballast file.
void DiskWatch::relieve() {
  engine_.relieve([this](bool had_room) {
    stuck_ = !had_room;
    const std::optional<std::uint64_t> free = free_bytes();
    if (stuck_ && free && *free < reserve_) give_up_ballast(*free);
  });
}

void DiskWatch::give_up_ballast(std::uint64_t free) {
  if (::unlink(ballast_.c_str()) != 0) return;
  log_warn("event=ballast_given_up path={} bytes={} free_before={}", ballast_, ballast_bytes_,
           free);
}

}  // namespace c10dd::daemon
