// SPDX-License-Identifier: Apache-2.0
// A daemon process: the product's Directory, Job, CommitGate and codecs in a shell that takes the
// steps of daemon/shard/shard*.cc, native_session.cc and server.cc in their order, over the simulated
// disk and network. Turns are in daemon.cc, the rest in daemon_frames.cc, _jobs.cc, _load.cc,
// _drain.cc.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "daemon/core/commit_gate.h"
#include "daemon/core/directory.h"
#include "daemon/core/job.h"
#include "protocol/native_wire.h"
#include "tests/sim/disk.h"
#include "tests/sim/network.h"

namespace c10dd::sim {

class Daemon final : public Process, public Endpoint {
 public:
  Daemon(World& world, const Swarm& swarm, Disk& disk, Records& records, DriftingClock clock,
         std::uint64_t number);

  /// Opens the engine; then connections may come.
  void start();
  void accept(const LinkRef& link);
  void on_bytes(const LinkRef& link, std::string bytes) override;
  void on_closed(const LinkRef& link) override;

  /// SIGKILL: the kernel resets the sockets. With the machine's power gone nobody is told.
  void kill() override { die(false); }
  void die(bool power_lost);

  /// SIGTERM: from its next turn on it takes nothing but heartbeats; when what it holds has left,
  /// or after `timeout`, it ends. `closed` is called first, `ended` last.
  void drain(Duration timeout, std::function<void()> closed, std::function<void()> ended);

  /// Nothing is blocked, held or on its way to the engine; else says what is.
  std::string unsettled() const;
  /// The job of this name, if it is served.
  const core::Job* job(const std::string& name) const;
  core::Quotas quotas() const;

 private:
  struct Connection {
    LinkRef link;
    Bytes in;
    bool opened = false;
    struct Channel {
      JobNumber job = 0;  ///< 0 while its hello is under way
      core::Origin from;
    };
    std::map<std::uint32_t, Channel> channels;
  };
  using ConnectionRef = std::shared_ptr<Connection>;

  struct Slot {
    struct Attachment {
      ConnectionRef connection;
      std::uint32_t channel = 0;
      std::uint64_t number = 0;  ///< never used again in this process
    };
    /// Signs of life of a session since this daemon began to serve the job, in job time.
    struct Signs {
      TimePoint frame;
      std::optional<TimePoint> closed;  ///< its connection went then
    };
    struct Refused {
      ConnectionRef connection;
      std::uint32_t channel = 0;
      std::uint64_t sequence = 0;
    };
    std::string name;
    JobNumber number = 0;
    Epoch epoch = 0;
    bool serving = false;
    bool dropped = false;
    std::unique_ptr<core::Job> job;
    std::unique_ptr<core::CommitGate> gate;
    std::vector<Row> rows;
    Revision handed_over = 0;
    std::map<SessionId, Attachment> attached;
    std::map<std::uint64_t, Refused> refused;
    std::map<SessionId, Signs> signs;
    TimePoint served_since;  ///< job time
    std::vector<std::function<void()>> when_loaded;
    Result<void> restored;  ///< so far
    bool touched = false;
  };
  using SlotRef = std::shared_ptr<Slot>;
  using OnOpen = std::function<void(const SlotRef&)>;

  // ---- daemon.cc: shard.cc
  bool time_stands_still() const;
  TimePoint job_now() const;
  void end_turn() override;
  void submit(const SlotRef& slot, const core::Origin& from, const core::CallId& call,
              const Request& request);
  void detach(const SlotRef& slot, const SessionId& session, const Connection* connection);
  void perform(const SlotRef& slot, core::Effects effects, const core::Origin* from = nullptr,
               std::uint64_t sequence = 0);
  void note_losses(const SlotRef& slot, const Step& step);
  void touch(const SlotRef& slot);
  void start_round();
  void finish_round(store::RoundResult result);
  void release(const SlotRef& slot);
  void refuse_held(const SlotRef& slot);

  // ---- daemon_drain.cc: server.cc
  void end_when_finished(TimePoint deadline, std::function<void()> ended);
  void forgive_absence();

  // ---- daemon_jobs.cc: shard_jobs.cc
  static Failure unavailable(std::string detail);
  bool adopt();
  void hello(const ConnectionRef& connection, std::uint32_t channel, std::uint64_t sequence,
             Hello hello, OnOpen on_open);
  SlotRef slot_of(const Hello& hello, Failure& refused);
  void attach(const SlotRef& slot, const ConnectionRef& connection, std::uint32_t channel,
              std::uint64_t sequence, const Hello& hello, const OnOpen& on_open);
  void refuse(const ConnectionRef& connection, std::uint32_t channel, std::uint64_t sequence,
              Failure reason);
  void drop(const SlotRef& slot, const Failure& reason);
  void lose_engine(const std::string& why);

  // ---- daemon_load.cc: shard_load.cc
  static constexpr std::size_t kPieceRows = 60;  // at most
  struct Piece {
    Result<store::Claim> claim = store::Claim{};  ///< a failure: nothing more comes
    std::vector<Row> rows;
    bool last = false;
  };
  struct Load;
  void load(const SlotRef& slot, std::vector<Row> directory_rows, Revision directory_from);
  void read_on(const std::shared_ptr<Load>& load);
  void restore(const SlotRef& slot, const Piece& piece);
  void loaded(const SlotRef& slot, Result<void> good);

  // ---- daemon_frames.cc: native_session.cc
  void read(const ConnectionRef& connection, std::string_view bytes);
  void take(const ConnectionRef& connection, const native::Frame<native::RequestHeader>& frame);
  void beat_for_others(const ConnectionRef& connection, JobNumber one);
  void open(const ConnectionRef& connection, const native::RequestHeader& header, Hello hello);
  void deliver(const Slot::Attachment& to, const core::Reply& reply, const Stamp& stamp);
  void answer(const ConnectionRef& connection, const native::RequestHeader& header,
              const Answer& answer);
  void end_session(const Slot::Attachment& where, const Failure& reason);
  void end(const ConnectionRef& connection);

  const Swarm& swarm_;
  Disk& disk_;
  Records& records_;
  const std::uint64_t number_;

  std::map<std::uint64_t, ConnectionRef> connections_;
  std::shared_ptr<DiskQueue> queue_;
  std::unique_ptr<core::Directory> directory_;
  std::uint64_t generation_ = 0;
  std::map<JobNumber, SlotRef> jobs_;
  std::map<std::pair<std::string, std::string>, SlotRef> by_name_;
  std::vector<SlotRef> touched_;
  std::uint64_t attachments_ = 0;

  struct InFlight {
    SlotRef slot;
    Revision to = 0;
  };
  std::uint64_t round_ = 0;
  bool round_in_flight_ = false;
  std::vector<InFlight> committing_;
  std::vector<SlotRef> confirming_;

  TimePoint job_time_;
  TimePoint turn_ended_;
  bool draining_ = false;
};

}  // namespace c10dd::sim
