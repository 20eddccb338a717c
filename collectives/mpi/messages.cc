// SPDX-License-Identifier: Apache-2.0
#include "collectives/mpi/messages.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <climits>
#include <thread>
#include <utility>

#include "client/internal/per_process.h"
#include "collectives/message_texts.h"
#include "collectives/mpi/calls.h"
#include "collectives/mpi/types.h"
#include "collectives/wording.h"

namespace c10dd::collectives::mpi {
namespace {

using Clock = std::chrono::steady_clock;

int tag_limit() {
  void* value = nullptr;
  int found = 0;
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, static_cast<void*>(&value), &found);
  constexpr int kAlways = 32'767;
  return found != 0 ? *static_cast<int*>(value) : kAlways;
}

}  // namespace

Messages::Messages(Runtime& runtime, MPI_Comm comm)
    : runtime_(runtime), comm_(comm), tag_max_(tag_limit()) {
  int size = 0;
  MPI_Comm_rank(comm_, &rank_);
  MPI_Comm_size(comm_, &size);
  next_.resize(static_cast<std::size_t>(size));
}

void Messages::start(const Operation& operation, Completion& completion) {
  std::unique_lock lock(mutex_);
  if (dead_) {
    const Failure reason = *dead_;
    lock.unlock();
    return completion.complete_message(reason);
  }
  Poller::instance().wake(shared_from_this());  // may throw; poll() waits for the lock
  completion.begun();
  started_.push_back({operation, &completion});
  if (runtime_.enter()) return;
  started_.pop_back();
  lock.unlock();
  completion.complete_message(failure(Code::closed, "mpi: MPI was finalized in this process"));
}

void Messages::fail(const Failure& reason) {
  bool first = false;
  {
    const std::lock_guard lock(mutex_);
    first = !dead_;
    if (first) dead_ = reason;
  }
  if (first) {
    take_all();
    listener_(reason);
  }
  call_completions();
}

void Messages::close() {
  const std::lock_guard polling(polling_);
  const std::lock_guard lock(mutex_);
  // The communicator of a failed group is kept, see Lane::free_locked().
  if (dead_ || !runtime_.enter()) return;
  MPI_Comm comm = comm_;
  MPI_Comm_free(&comm);
  runtime_.leave();
}

Messages::Polled Messages::poll() {
  std::optional<Failure> failed;
  Polled polled = Polled::advanced;
  {
    const std::lock_guard polling(polling_);
    std::list<Message> started;
    {
      const std::lock_guard lock(mutex_);
      if (dead_) return Polled::ended;
      started.swap(started_);
    }
    try {
      polled = advance(started);
      failed = find_late();
    } catch (const std::exception& error) {  // also std::bad_alloc
      failed = failure(Code::internal, "mpi: {}", error.what());
      receives_.splice(receives_.end(), started);  // so that fail() ends those that have not begun
    }
  }
  call_completions();
  if (failed) fail(*failed);
  return polled;
}

void Messages::call_completions() {
  while (true) {
    std::unique_lock lock(mutex_);
    if (ends_.empty()) return;
    End end = std::move(ends_.front());
    ends_.pop_front();
    lock.unlock();
    end.completion->complete_message(std::move(end.result));
  }
}

Messages::Polled Messages::advance(std::list<Message>& started) {
  const bool any = !started.empty();
  while (!started.empty()) begin(started);
  take_headers();
  const bool ended = end_transfers();
  if (any || ended) return Polled::advanced;
  return receives_.empty() && transfers_.empty() ? Polled::ended : Polled::waits;
}

/// Begins the first message. It stays in one of the lists if that fails.
void Messages::begin(std::list<Message>& started) {
  const auto at = started.begin();
  receives_.splice(receives_.end(), started, at);
  if (at->operation.collective == Collective::send) return send(at);
  const Receive receive{&at->operation, at};
  if (const auto offer = matcher_.post(receive)) accept(*offer, receive);
}

/// Adds the requests that send or receive the elements. Their tag is in the header.
void Messages::add_requests(Transfer& transfer, const Tensor& elements, int peer) {
  const bool sends = transfer.message.operation.collective == Collective::send;
  const int tag = transfer.header.elements_tag;
  const MPI_Datatype type = type_of(elements.dtype);
  std::size_t begin = 0;
  do {  // also if there are no elements, because a send ends when it is received
    const int count = static_cast<int>(std::min(kCountMax, elements.count - begin));
    void* const data = elements.slice(begin, 0).data;
    MPI_Request* const request = &transfer.requests.emplace_back();
    if (sends) {
      require(MPI_Issend(data, count, type, peer, tag, comm_, request), "MPI_Issend");
    } else {
      require(MPI_Irecv(data, count, type, peer, tag, comm_, request), "MPI_Irecv");
    }
    begin += static_cast<std::size_t>(count);
  } while (begin < elements.count);
}

/// Begins a send, which is in receives_.
void Messages::send(std::list<Message>::iterator message) {
  const auto& transfer = transfers_.emplace_back(std::make_unique<Transfer>());
  transfer->message = std::move(*message);
  receives_.erase(message);
  const Operation& operation = transfer->message.operation;
  const std::uint64_t number = next_[operation.peer]++;
  transfer->header = {
      .tag = operation.tag,
      .dtype = operation.input.dtype,
      .elements_tag = 1 + static_cast<int>(number % static_cast<std::uint64_t>(tag_max_)),
      .count = operation.input.count};
  const int peer = static_cast<int>(operation.peer);
  require(MPI_Isend(&transfer->header, sizeof(Header), MPI_BYTE, peer, 0, comm_,
                    &transfer->requests.emplace_back()),
          "MPI_Isend");
  add_requests(*transfer, operation.input, peer);
}

void Messages::accept(const Offer& offer, const Receive& receive) {
  const auto& transfer = transfers_.emplace_back(std::make_unique<Transfer>());
  transfer->message = std::move(*receive.message);
  receives_.erase(receive.message);
  transfer->source = offer.source;
  transfer->header = offer.header;
  Tensor elements = transfer->message.operation.output;
  const bool good = fits(offer.header.count, offer.header.dtype, elements);
  elements.dtype = offer.header.dtype;
  elements.count = offer.header.count;
  if (!good) {
    // Receives the elements nevertheless, so that the send ends. Needs room for all: Open MPI 4
    // copies from a process of the same host beyond the end of a receive that is too small. The
    // group fails if there is no such room.
    transfer->scratch.resize(elements.bytes());
    elements.data = transfer->scratch.data();
  }
  add_requests(*transfer, elements, static_cast<int>(offer.source));
}

/// Receives headers while a receive waits for one.
void Messages::take_headers() {
  while (!matcher_.receives().empty()) {
    int found = 0;
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Status status;
    require(MPI_Improbe(MPI_ANY_SOURCE, 0, comm_, &found, &message, &status), "MPI_Improbe");
    if (found == 0) return;
    Offer offer{.source = static_cast<Rank>(status.MPI_SOURCE), .tag = 0, .header = {}};
    require(MPI_Mrecv(&offer.header, sizeof(Header), MPI_BYTE, &message, MPI_STATUS_IGNORE),
            "MPI_Mrecv");
    offer.tag = offer.header.tag;
    if (const auto receive = matcher_.offer(offer)) {
      accept(offer, *receive);
    } else {
      matcher_.keep(offer);
    }
  }
}

/// Ends the transfers that MPI has completed. Returns whether there was one.
bool Messages::end_transfers() {
  bool any = false;
  for (auto at = transfers_.begin(); at != transfers_.end();) {
    Transfer& transfer = **at;
    int ended = 0;
    require(MPI_Testall(static_cast<int>(transfer.requests.size()), transfer.requests.data(),
                        &ended, MPI_STATUSES_IGNORE),
            "MPI_Testall");
    if (ended == 0) {
      ++at;
      continue;
    }
    const Header& header = transfer.header;
    const Operation& operation = transfer.message.operation;
    Result<Received> result = Received{};
    if (operation.collective == Collective::recv) {
      const Tensor& to = operation.output;
      if (fits(header.count, header.dtype, to)) {
        result = Received{transfer.source, header.tag, header.count};
      } else {
        result = does_not_fit(transfer.source, static_cast<Rank>(rank_), header.tag, header.count,
                              header.dtype, to.count, to.dtype);
      }
    }
    {
      const std::lock_guard lock(mutex_);
      ends_.push_back({transfer.message.completion, std::move(result)});
    }
    any = true;
    runtime_.leave();
    at = transfers_.erase(at);
  }
  return any;
}

std::optional<Failure> Messages::find_late() const {
  MessageDeadlines all{Clock::now()};
  const auto missing = [](Rank rank) {
    return missing_rank(rank, {}, MissingRank::Cause::not_arrived);
  };
  for (const Message& one : receives_) all.add(one.operation, one.operation.peer, missing);
  for (const auto& one : transfers_) {
    const Operation& operation = one->message.operation;
    all.add(operation, operation.collective == Collective::send ? operation.peer : one->source,
            missing);
  }
  return all.late;
}

/// Gives all messages the failure of the group as their end.
void Messages::take_all() {
  const std::lock_guard polling(polling_);
  const std::lock_guard lock(mutex_);
  Failure reason = *dead_;
  if (!transfers_.empty()) {
    runtime_.abandon();
    reason.detail += format("; {}", Runtime::kMustExit);
  }
  // MPI may still use the memory of a transfer, so it is never destroyed.
  for (auto& transfer : transfers_) {
    ends_.push_back({transfer.release()->message.completion, reason});
  }
  for (const auto* const list : {&receives_, &started_}) {
    for (const Message& message : *list) {
      ends_.push_back({message.completion, reason});
      runtime_.leave();
    }
  }
  transfers_.clear();
  receives_.clear();
  started_.clear();
  matcher_ = {};
}

Poller& Poller::instance() { return client::of_this_process<Poller>(); }

void Poller::wake(std::shared_ptr<Messages> messages) {
  const std::lock_guard lock(mutex_);
  woken_.reserve(woken_.size() + 1);
  if (!has_thread_) std::thread([this] { run(); }).detach();
  has_thread_ = true;
  woken_.push_back(std::move(messages));
  changed_.notify_all();
}

void Poller::run() {
  constexpr auto kSpin = std::chrono::microseconds(200);  // after the last message that advanced
  constexpr auto kSleep = std::chrono::microseconds(50);
  constexpr auto kIdle = std::chrono::seconds(1);  // without messages, before the thread ends
  std::vector<std::shared_ptr<Messages>> active;
  Clock::time_point advanced = Clock::now();
  while (true) {
    {
      std::unique_lock lock(mutex_);
      if (active.empty()) changed_.wait_for(lock, kIdle, [&] { return !woken_.empty(); });
      for (auto& messages : woken_) {
        if (std::ranges::count(active, messages) == 0) active.push_back(std::move(messages));
      }
      woken_.clear();
      has_thread_ = !active.empty();
      if (!has_thread_) return;
    }
    std::erase_if(active, [&](const std::shared_ptr<Messages>& messages) {
      const Messages::Polled polled = messages->poll();
      if (polled == Messages::Polled::advanced) advanced = Clock::now();
      return polled == Messages::Polled::ended;
    });
    if (Clock::now() - advanced < kSpin) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(kSleep);
    }
  }
}

}  // namespace c10dd::collectives::mpi
