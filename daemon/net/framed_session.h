// SPDX-License-Identifier: Apache-2.0
// The part of a session that does not depend on its protocol: reads the bytes of one connection,
// cuts them into frames with the functions of a derived class, shares the loop fairly with other
// connections, keeps within the memory budget, and writes replies. A frame is taken as a whole.
//
// begin() starts to read; the end of a read or of a wait for a turn calls take_turn(), and that
// go_on(), which reads on. All functions are called on the loop of the shard and the stream. Only
// the destructor may run on another shard's loop, which may hold the last reference: by then end()
// has cancelled all timers and close_stream() has closed the socket, so the destructor uses neither
// loop.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string_view>

#include "daemon/net/outbox.h"
#include "daemon/net/session_context.h"
#include "daemon/net/shared_budget.h"
#include "daemon/net/stream.h"
#include "daemon/shard/shard.h"

namespace c10dd::daemon {

/// Returns a new number, by which jobs identify a connection. Never returns a number twice.
std::uint64_t next_connection();

class FramedSession : public BudgetSink, public StreamReader {
 public:
  void on_read(std::size_t bytes, const ErrorCode& failed) final;
  asio::any_io_executor budget_executor() final { return stream_->executor(); }
  void read_on() final;
  void close_for_room(const Failure& reason) final;

 protected:
  FramedSession(Protocol protocol, std::shared_ptr<Stream> stream, const SessionContext& context,
                Shard& shard);

  /// What was done with the bytes at hand.
  struct Taken {
    std::size_t size = 0;  ///< of the frame; 0: no frame was taken
    bool rest = false;     ///< take no more frames before the next turn
  };

  // ---- what the derived class does

  virtual std::shared_ptr<FramedSession> self() = 0;
  /// Takes the first frame of `in`, if it is complete.
  virtual Taken take_frame(std::string_view in) = 0;
  /// Returns the size for which the incomplete frame `in` needs memory, as far as it is known; 0 if
  /// nothing is known. Memory for `counted` bytes of it is reserved already.
  virtual std::size_t frame_size(std::string_view in, std::size_t counted) const = 0;
  /// Returns the job that got the newest request; null before the first such request.
  virtual const core::JobRef& newest_job() const = 0;
  /// Returns false while no frame must be taken. When that has changed, go_on_soon() must be
  /// called.
  virtual bool may_take() const { return true; }
  /// Sends the reason why the connection is closed, if the protocol can express it.
  virtual void send_refusal(const Failure&) {}
  /// Called when bytes of the peer are at hand that are not taken yet: the rest of their frame has
  /// not come, or the connection waits for its turn. The peer has given a sign of life.
  virtual void heard() {}
  /// Called when the outbox has room again.
  virtual void drained() {}
  /// Called once when the session ends: cancels timers.
  virtual void ending() = 0;
  /// Called once, later than ending(): ends what the session has begun at jobs.
  virtual void leave_jobs() = 0;

  // ---- for the derived class

  /// Begins with `in`, the bytes that were read before.
  void begin(Bytes in);
  void go_on_soon();
  /// Takes the frames at hand, also while a read waits for bytes. For a frame that was incomplete,
  /// but counts as complete now.
  void take_again();
  /// Ends the session. `reason` is a metric label.
  void end(const char* reason);
  void log_refusal(const Failure& reason);

  /// Sets the size of what the session holds for replies that are not in the outbox yet, so that
  /// the memory budget knows it.
  void set_held(std::size_t bytes);

  bool ended() const { return ended_ != nullptr; }
  Outbox& outbox() { return *outbox_; }
  Stream& stream() { return *stream_; }
  Shard& shard() { return shard_; }
  const SessionContext& context() const { return context_; }
  /// Returns the time on the steady clock at which frames were last taken.
  std::int64_t arrived_ns() const { return arrived_ns_; }
  /// Returns the turn in which frames were last taken.
  std::uint64_t taken_turn() const { return taken_turn_; }

 private:
  template <class Step>
  void run(Step&& step);
  bool is_paused() const;
  bool must_wait_for_turn() const;
  void wait_for_turn();
  void go_on();
  void take_turn();
  bool read();
  void note_heard();
  void take_in();
  void ask_for_room();
  std::size_t take_frames(std::string_view in);
  void clean_up();
  asio::awaitable<void> close_stream();

  const Protocol protocol_;
  std::shared_ptr<Stream> stream_;
  const SessionContext& context_;
  Shard& shard_;
  std::shared_ptr<Outbox> outbox_;
  static constexpr std::size_t kFirstBytes =
      384;  // the buffer of a connection that waits for bytes
  std::array<char, kFirstBytes> first_;
  std::size_t first_bytes_ = 0;
  ErrorCode read_failed_;
  bool has_read_ = false;  // a read has ended, and its result was not handled yet
  bool waits_ = false;     // for a read or for a turn; then take_turn() is called
  BudgetShare share_;
  std::size_t queued_ = 0;       // bytes in the outbox, as it has reported them
  std::size_t held_ = 0;         // see set_held()
  Bytes in_;                     // bytes of frames that are incomplete or left for a later turn
  bool waits_for_room_ = false;  // the budget has no room yet for a large frame
  bool frames_left_ = false;     // in_ may begin with whole frames
  std::uint64_t taken_turn_ = 0;
  core::SteadyTime heard_again_;  // the earliest time of the next call of heard()
  const char* ended_ = nullptr;   // metric label: why the session has ended; null: it goes on
  std::int64_t arrived_ns_ = 0;
};

}  // namespace c10dd::daemon
