// SPDX-License-Identifier: Apache-2.0
#include "daemon/net/answer_watch.h"

#include <utility>

namespace c10dd::daemon {

namespace asio = boost::asio;

asio::execution_context::id AnswerWatch::id;

AnswerWatch::AnswerWatch(asio::execution_context& loop)
    : asio::execution_context::service(loop),
      timer_(std::in_place, static_cast<asio::io_context&>(loop)) {}

AnswerWatch& AnswerWatch::of(asio::io_context& loop) {
  return asio::use_service<AnswerWatch>(loop);
}

void AnswerWatch::shutdown() {
  timer_.reset();
  watched_.clear();
}

void AnswerWatch::add(Watched& connection) {
  if (!timer_ || connection.place_) return;
  connection.place_ = watched_.size();
  watched_.push_back(&connection);
  if (watched_.size() == 1) look_later();
}

/// Moves the last connection to the free place. If that place has had its turn in this round, and
/// the last connection has not, the connection waits for its turn a round longer.
void AnswerWatch::remove(Watched& connection) {
  if (!timer_ || !connection.place_) return;
  const std::size_t place = *std::exchange(connection.place_, std::nullopt);
  watched_[place] = watched_.back();
  watched_[place]->place_ = place;
  watched_.pop_back();
  connection.place_.reset();
  if (watched_.empty()) timer_->cancel();  // otherwise the loop would not end
}

/// Returns in how many slices the round is looked at.
std::size_t AnswerWatch::slices() const { return (watched_.size() + kSlice - 1) / kSlice; }

void AnswerWatch::look_later() {
  timer_->expires_after(round_ / slices());
  timer_->async_wait([this](const boost::system::error_code& cancelled) {
    if (!cancelled && !watched_.empty()) look();
  });
}

void AnswerWatch::look() {
  const std::size_t count = (watched_.size() + slices() - 1) / slices();
  for (std::size_t n = 0; n < count && !watched_.empty(); ++n) {
    if (next_ >= watched_.size()) next_ = 0;
    watched_[next_++]->look_at_peer();
  }
  if (timer_ && !watched_.empty()) look_later();
}

}  // namespace c10dd::daemon
