// SPDX-License-Identifier: Apache-2.0
#include "daemon/shard/mark_file.h"

#include <boost/asio/post.hpp>

#include "daemon/shard/log_line.h"
#include "protocol/fields.h"
#include "protocol/format.h"
#include "protocol/wording.h"

namespace c10dd::daemon {
namespace {

constexpr store::SlotFormat kFormat{"c10ddmk\n", 1};

}  // namespace

Result<core::StateMark> MarkFile::read() {
  if (path_.empty()) return core::StateMark{};
  Result<store::SlotFile> file = store::SlotFile::open(path_, kFormat, [](std::string_view body) {
    return wire::decode<core::StateMark>(body).has_value();
  });
  if (!file) {
    return failure(file.error().code, "--mark: {}", file.error().detail);
  }
  file_.emplace(std::move(*file));
  if (file_->found() == store::SlotFile::Found::value) {
    return *wire::decode<core::StateMark>(file_->body());
  }
  if (file_->found() == store::SlotFile::Found::nothing) return core::StateMark{};
  return failure(
      Code::malformed,
      "--mark: both slots of {} are damaged, so the daemon cannot tell whether the state was "
      "rolled back; start with --accept-rollback, or use another file",
      path_);
}

Failure MarkFile::unusable(const Failure& why) {
  return failure(Code::invalid_argument, "{}; give a file that this daemon can write", why.detail);
}

Result<void> MarkFile::write_first(const core::StateMark& mark) {
  if (!file_) return {};
  const Result<void> written = file_->write(wire::encode(mark));
  if (written) return {};
  return unusable(failure(written.error().code, "--mark: {}", written.error().detail));
}

void MarkFile::write(const core::StateMark& mark) {
  if (!file_ || writing_.exchange(true)) return;
  boost::asio::post(thread_, [this, body = wire::encode(mark)] {
    const Result<void> written = file_->write(body);
    if (!written && !failed_) {
      log_error("event=mark_not_written reason={}", Sentence{written.error().detail});
    }
    failed_ = !written;
    writing_ = false;
  });
}

}  // namespace c10dd::daemon
