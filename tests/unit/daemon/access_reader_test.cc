// SPDX-License-Identifier: Apache-2.0
// Files are read on a thread, one reading after the other, and the loop gets what they say.
#include "daemon/access_reader.h"

#include <sys/stat.h>

#include <boost/asio/executor_work_guard.hpp>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/entries.h"
#include "tests/unit/protocol/tls_parties.h"
#include "tests/unit/temporary_directory.h"

namespace c10dd::daemon {
namespace {

class AccessReaderTest : public testing::Test {
 protected:
  AccessReaderTest() {
    const tls::Ca ca;
    const tls::WallTime now = wall_now();
    const tls::Identity daemon = ca.daemon({"head"}, now, now + std::chrono::hours(1));
    write("tls.crt", daemon.chain.at(0).pem());
    write("tls.key", daemon.key.private_pem());
    write("ca.crt", ca.certificate.pem());
    ::chmod((directory_.path() + "/tls.key").c_str(), 0600);
  }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(directory_.path() + "/" + name, std::ios::binary) << text;
  }
  AccessFiles files() const { return {directory_.path(), ""}; }

  /// Begins a reading whose end is noted under this name.
  void read(const std::string& name, std::vector<std::string> known = {}) {
    reader_->read(files(), std::move(known),
                  [this, name](const std::string& state, const Result<ReadAccess>& read) {
                    state_ = state;
                    ended_.push_back(name + (read ? "" : ": " + read.error().detail));
                  });
  }
  void run(std::size_t count) {
    while (ended_.size() < count) loop_.run_ready();
  }

  TemporaryDirectory directory_;
  Loop loop_;
  const boost::asio::executor_work_guard<Loop::executor_type> open_{loop_.get_executor()};
  std::unique_ptr<AccessReader> reader_ = std::make_unique<AccessReader>(loop_);
  std::string state_;
  std::vector<std::string> ended_;
};

TEST_F(AccessReaderTest, WhatWasReadComesToTheLoop) {
  read("good");
  EXPECT_GT(reader_->waited(), Duration::zero());
  run(1);
  EXPECT_EQ(state_, files().state());
  EXPECT_EQ(reader_->waited(), Duration::zero());
  write("ca.crt", "");
  read("bad");
  run(2);
  EXPECT_EQ(ended_, (std::vector<std::string>{"good", "bad: " + directory_.path() +
                                                          "/ca.crt has no certificate in PEM"}));
}

TEST_F(AccessReaderTest, WhatIsKnownIsNotReadAgain) {
  read("first");
  run(1);
  read("known", {"other", state_});
  read("newest");
  run(2);
  EXPECT_EQ(ended_, (std::vector<std::string>{"first", "newest"}));
}

TEST_F(AccessReaderTest, OnlyTheNewestCallWaitsForTheReadingUnderWay) {
  read("first");
  read("second");
  read("third");
  run(2);
  EXPECT_EQ(ended_, (std::vector<std::string>{"first", "third"}));
  EXPECT_EQ(reader_->waited(), Duration::zero());
}

TEST_F(AccessReaderTest, AReadingWhoseReaderIsGoneIsForgotten) {
  std::vector<std::string> expected;
  const std::size_t before = test::threads_here();
  for (const bool waits_in_loop : {false, true}) {
    read("first");
    while (waits_in_loop && test::threads_here() > before) std::this_thread::yield();
    reader_.reset();
    reader_ = std::make_unique<AccessReader>(loop_);
    read("second");
    expected.push_back("second");
    run(expected.size());
  }
  EXPECT_EQ(ended_, expected);
}

}  // namespace
}  // namespace c10dd::daemon
