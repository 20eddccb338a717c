// SPDX-License-Identifier: Apache-2.0
#include "daemon/access_reader.h"

#include <algorithm>
#include <chrono>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

namespace c10dd::daemon {

tls::WallTime wall_now() {
  return std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
}

Result<ReadAccess> read_access(AccessFiles files) {
  constexpr int kTries = 5;
  for (int i = 0; i < kTries; ++i) {
    const std::string before = files.state();
    const Result<AccessTexts> texts = files.read();
    if (!texts) return texts.error();
    if (files.state() != before) continue;
    auto rules = AccessRules::of(*texts, wall_now());
    if (!rules) return rules.error();
    return ReadAccess{std::move(files), before, std::move(*rules)};
  }
  return failure(Code::invalid_argument, "the files of --tls and --grants change all the time");
}

struct AccessReader::Link {
  std::mutex mutex;
  Loop* loop;  // null: the reader is gone
};

AccessReader::AccessReader(Loop& loop) : link_(std::make_shared<Link>()) { link_->loop = &loop; }

AccessReader::~AccessReader() {
  const std::lock_guard lock(link_->mutex);
  link_->loop = nullptr;
}

void AccessReader::read(AccessFiles files, std::vector<std::string> known, Then then) {
  if (!begun_) return begin(std::move(files), std::move(known), std::move(then));
  next_ = [this, files = std::move(files), known = std::move(known), then = std::move(then)] {
    begin(files, known, then);
  };
}

void AccessReader::begin(AccessFiles files, std::vector<std::string> known, Then then) {
  auto work = [this, link = link_, files = std::move(files), known = std::move(known),
               then = std::move(then)] {
    const std::string state = files.state();
    std::optional<Result<ReadAccess>> read;
    if (std::ranges::count(known, state) == 0) read = read_access(files);
    const std::lock_guard lock(link->mutex);
    if (link->loop == nullptr) return;
    link->loop->post([this, link, state, read = std::move(read), then] {
      if (link->loop == nullptr) return;  // the reader was destroyed since; only the loop writes it
      if (read) then(state, *read);
      ended();
    });
  };
  begun_ = std::chrono::steady_clock::now();
  try {
    std::thread(std::move(work)).detach();
  } catch (const std::system_error&) {
    begun_.reset();  // there is no thread: the next look tries again
  }
}

void AccessReader::ended() {
  begun_.reset();
  if (const auto next = std::exchange(next_, nullptr)) next();
}

Duration AccessReader::waited() const {
  return begun_ ? std::chrono::steady_clock::now() - *begun_ : Duration::zero();
}

}  // namespace c10dd::daemon
