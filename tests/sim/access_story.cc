// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/access_story.h"

#include <optional>

#include "protocol/format.h"
#include "protocol/parse.h"
#include "tests/sim/plants.h"

namespace c10dd::sim {
namespace {

using std::chrono::seconds;

constexpr Duration kLate = seconds(8);

/// A token as this story writes it: JOB/END, the end in nanoseconds of the world.
struct Token {
  std::string job;
  TimePoint ends;
};

std::optional<Token> parsed(const std::string& text) {
  const std::size_t slash = text.find('/');
  if (slash == text.npos) return std::nullopt;
  const auto ends = parse_number<std::int64_t>(text.substr(slash + 1));
  if (!ends) return std::nullopt;
  return Token{text.substr(0, slash), TimePoint(Duration(*ends))};
}

}  // namespace

void AccessStory::begin() {
  world_.after(random_.between(seconds(1), seconds(10)), [this] { refuse_somebody(); });
}

void AccessStory::stop() {
  stopped_ = true;
  refused_.clear();
}

void AccessStory::refuse_somebody() {
  if (stopped_) return;
  const std::string job = "job" + std::to_string(1 + random_.below(2));
  if (refused_.emplace(job, world_.now()).second) {
    world_.note("access.refused", 0, 0, job);
    world_.after(random_.between(Duration(0), seconds(4)), [this, job] {
      refused_.erase(job);
      world_.note("access.granted", 0, 0, job);
    });
  }
  begin();
}

std::string AccessStory::token(const std::string& job) const {
  const Duration now = world_.now().time_since_epoch();
  std::int64_t period = now / life_;
  const bool late = !stopped_ && (period + static_cast<std::int64_t>(job.back())) % 3 == 0;
  if (late && now - period * life_ < std::min<Duration>(kLate, life_ / 10 * 9)) --period;
  return format("{}/{}", job, ((period + 1) * life_).count());
}

Result<core::Caller> AccessStory::caller(const std::string& token, const std::string& job) const {
  const std::optional<Token> shown = parsed(token);
  if (!shown) return failure(Code::unauthenticated, "there is no token");
  if (world_.now() > shown->ends + kSkew && !planted(Plant::expiry_ignored)) {
    return failure(Code::unauthenticated, "the token has expired");
  }
  if (refused_.contains(shown->job)) return failure(Code::unauthenticated, "it is revoked");
  if (shown->job != job && !planted(Plant::other_job_allowed)) {
    return failure(Code::permission_denied, "he may do nothing in this job");
  }
  const Duration left = shown->ends - world_.now();
  return core::Caller{"owner of " + shown->job, Access::join,
                      std::max<Duration>(left, std::chrono::milliseconds(1))};
}

bool AccessStory::may_be_told(const std::string& token, const std::string& job,
                              TimePoint looked) const {
  // A look, and a turn of a busy loop.
  const Duration late = 2 * kLook;
  const std::optional<Token> shown = parsed(token);
  if (!shown || shown->job != job) return false;
  if (looked > shown->ends + kSkew + late) return false;
  const auto refused = refused_.find(job);
  return refused == refused_.end() || looked <= refused->second + late;
}

}  // namespace c10dd::sim
