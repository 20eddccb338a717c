// SPDX-License-Identifier: Apache-2.0
// Messages: sends and receives of one group. MPI's tags are too small for those of c10dd, and MPI
// does not say which type a message has. So a header, with MPI's tag 0, announces each message: it
// has the tag, the type and the number of elements, and the tag of MPI with which the elements
// follow.
#pragma once

#include <mpi.h>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "collectives/backend.h"
#include "collectives/message_matcher.h"
#include "collectives/mpi/runtime.h"

namespace c10dd::collectives::mpi {

/// Owns the communicator. All calls of MPI are made by the Poller's thread. Thread-safe.
class Messages final : public std::enable_shared_from_this<Messages> {
 public:
  Messages(Runtime& runtime, MPI_Comm comm);

  /// Calls `listener` once, when fail() or a message has ended the group. Called before the first
  /// message.
  void on_failure(std::function<void(const Failure&)> listener) { listener_ = std::move(listener); }

  /// Starts a send or recv, see Backend::start().
  void start(const Operation& operation, Completion& completion);

  /// Ends all messages, and all later ones, with this failure, or with the one with which the group
  /// has failed. Ends them on this thread, because the Poller's may wait for them in a callback.
  void fail(const Failure& reason);

  /// Frees the communicator. No message may be waiting. Called once.
  void close();

  /// What poll() has found.
  enum class Polled { ended, waits, advanced };

  /// Advances the messages. `ended` means that there is none. Called by the Poller.
  Polled poll();

 private:
  struct Header {
    std::uint32_t tag = 0;
    DType dtype{};
    std::int32_t elements_tag = 0;  // MPI's tag of the elements
    std::uint64_t count = 0;
  };
  struct Message {
    Operation operation;  // a copy, which shares the owner of the tensor
    Completion* completion = nullptr;
  };
  struct Offer {
    Rank source;
    std::uint32_t tag;
    Header header;
  };
  struct Receive {
    const Operation* operation;
    std::list<Message>::iterator message;
  };
  /// A message whose elements are inside MPI.
  struct Transfer {
    Message message;
    Rank source = 0;  // of a receive
    Header header;
    std::vector<std::byte> scratch = {};  // of a receive that the message does not fit
    std::vector<MPI_Request> requests = {};
  };

  /// The end of a message. Its completion is called without a lock, because it may destroy the
  /// group.
  struct End {
    Completion* completion;
    Result<Received> result;
  };

  Polled advance(std::list<Message>& started);
  void begin(std::list<Message>& started);
  void send(std::list<Message>::iterator message);
  void accept(const Offer& offer, const Receive& receive);
  void take_headers();
  bool end_transfers();
  std::optional<Failure> find_late() const;
  void take_all();
  void call_completions();
  void add_requests(Transfer& transfer, const Tensor& elements, int peer);

  Runtime& runtime_;
  const MPI_Comm comm_;
  std::function<void(const Failure&)> listener_;
  int rank_ = 0;
  int tag_max_ = 0;

  std::mutex mutex_;  // guards the next three
  std::list<Message> started_;
  std::optional<Failure> dead_;
  // Any thread takes one at a time, because a completion may destroy the group, which needs the
  // others.
  std::deque<End> ends_;

  std::mutex polling_;           // locked before mutex_, guards all members below
  std::list<Message> receives_;  // without a message; also a send that is just being begun
  MessageMatcher<Offer, Receive> matcher_;
  std::list<std::unique_ptr<Transfer>> transfers_;
  std::vector<std::uint64_t> next_;  // by rank: number of the next message to it
};

/// Calls poll() of all Messages that have something to do, on the one thread of this process that
/// does so. Thread-safe.
class Poller {
 public:
  static Poller& instance();

  /// Polls until there is nothing to do. Throws, and does nothing, if the thread cannot start.
  void wake(std::shared_ptr<Messages> messages);

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;  // woken_ is not empty
  std::vector<std::shared_ptr<Messages>> woken_;
  bool has_thread_ = false;
};

}  // namespace c10dd::collectives::mpi
