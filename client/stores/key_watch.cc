// SPDX-License-Identifier: Apache-2.0
// Each call of next() asks the daemon for the changes since the position of the watch, and blocks
// until there are some. The position is kept in this process, not in the daemon. So if a reply is
// lost, the same request gets the same changes again.
#include "client/stores/key_watch.h"

#include "client/internal/throw_failure.h"

namespace c10dd {

KeyWatch::State::State(std::shared_ptr<client::Connection> connection, Duration limit, Watch watch)
    : connection_(std::move(connection)),
      limit_(limit),
      watch_(std::move(watch)),
      from_(watch_.from) {
  if (from_ == 0) from_ = ask(Timeout::zero()).next;
}

Changes KeyWatch::State::ask(Timeout timeout) {
  Watch request = watch_;
  request.from = from_;
  request.skip = skip_;
  request.timeout = timeout;
  return client::expect<Changes>(connection_->call(std::move(request), limit_, &recall_));
}

WatchBatch KeyWatch::State::next(Timeout timeout) {
  Changes changes = ask(timeout);
  WatchBatch batch;
  batch.next = changes.next;
  batch.changes.reserve(changes.changes.size());
  for (Change& change : changes.changes) {
    batch.changes.push_back(
        {change.revision, change.removed, std::move(change.key), std::move(change.value)});
  }
  from_ = batch.next;
  skip_ = changes.skip;
  return batch;
}

void KeyWatch::State::cancel() {
  connection_->recall(recall_, failure(Code::aborted, "the watch was cancelled"));
}

WatchBatch KeyWatch::next(Timeout timeout) { return state_->next(timeout); }
void KeyWatch::cancel() { state_->cancel(); }
std::uint64_t KeyWatch::from() const { return state_->from(); }

}  // namespace c10dd
