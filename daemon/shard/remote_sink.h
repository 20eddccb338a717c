// SPDX-License-Identifier: Apache-2.0
// Stands for a connection on the loop of another shard: a session whose job lives there gets its
// answers posted home, in order, once per turn.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/post.hpp>
#include <utility>
#include <vector>

#include "daemon/shard/job_slot.h"

namespace c10dd::daemon {

class RemoteSink final : public AnswerSink {
 public:
  /// home: the connection, which is touched on its own loop only.
  RemoteSink(std::shared_ptr<AnswerSink> home, boost::asio::any_io_executor loop)
      : home_(std::move(home)), loop_(std::move(loop)) {}

  void deliver(std::uint32_t channel, const core::Reply& reply, const Stamp& stamp) override {
    gathered_.push_back({channel, reply, stamp});
  }

  void end_session(std::uint32_t channel, const Failure& reason) override {
    flush();
    boost::asio::post(loop_,
                      [home = home_, channel, reason] { home->end_session(channel, reason); });
  }

  void flush() override {
    if (gathered_.empty()) return;
    boost::asio::post(loop_, [home = home_, gathered = std::exchange(gathered_, {})] {
      for (const Delivery& d : gathered) home->deliver(d.channel, d.reply, d.stamp);
      home->flush();
    });
  }

  const void* connection() const override { return home_.get(); }

 private:
  struct Delivery {
    std::uint32_t channel;
    core::Reply reply;
    Stamp stamp;
  };

  std::shared_ptr<AnswerSink> home_;
  boost::asio::any_io_executor loop_;
  std::vector<Delivery> gathered_;
};

}  // namespace c10dd::daemon
