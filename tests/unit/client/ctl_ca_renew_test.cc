// SPDX-License-Identifier: Apache-2.0
// c10ddctl ca renew: at each step of a renewal, clients and daemons that know one of the two CAs
// accept the other, and a renewal that was interrupted goes on.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <thread>

#include "client/ctl/ca.h"
#include "client/ctl/secret_files.h"
#include "daemon/config/access_rules.h"
#include "protocol/exit_codes.h"
#include "tests/unit/protocol/tls_parties.h"
#include "tests/unit/temporary_directory.h"

namespace c10dd::ctl {
namespace {

namespace fs = std::filesystem;
using tls::kNow;

class CtlCaRenew : public testing::Test {
 protected:
  std::string path(const std::string& name) const { return directory_.path() + "/" + name; }
  std::string text(const std::string& name) const { return *read_file(path(name)); }
  void put(const std::string& name, const std::string& text) const {
    std::ofstream(path(name), std::ios::binary) << text;
  }
  void init(const std::string& folder = "ca") const {
    Arguments of{.operands = {path(folder)}};
    of.ca.hosts = {"head"};
    ASSERT_EQ(ca_init(of, kNow).code, 0);
  }
  /// Lets the CA be as earlier versions of c10ddctl have made it: with no room for a CA below it.
  void init_narrow() const {
    init();
    const tls::Key key = *tls::Key::from_private_pem(text("ca/ca.key"), "ca.key");
    const tls::Certificate root = cas("ca").front();
    const tls::Certificate narrow = tls::make_cross(root, root, key);
    ASSERT_FALSE(narrow.allows_ca_below());
    for (const char* file : {"ca/ca.crt", "ca/daemon/ca.crt"}) put(file, narrow.pem());
  }
  Outcome renew(bool finish = false) const {
    Arguments of{.operands = {path("ca")}};
    of.ca.finish = finish;
    return ca_renew(of, kNow);
  }
  Outcome daemon(const std::string& out = "ca/daemon") const {
    Arguments of{.operands = {path("ca")}};
    of.ca.out = path(out);
    return ca_daemon(of, kNow);
  }
  std::string token() const {
    Arguments of{.operands = {path("ca")}};
    of.ca.name = "alice";
    of.ca.jobs = {"*"};
    return ca_token(of, kNow).output;
  }
  std::vector<tls::Certificate> cas(const std::string& folder) const {
    return *tls::certificates_of(text(folder + "/ca.crt"), "ca.crt");
  }
  std::string hash() const { return cas("ca").front().key().hash(); }
  std::shared_ptr<const daemon::AccessRules> rules(const std::string& folder = "ca/daemon") const {
    const auto file = [&](const std::string& name) {
      return daemon::FileText{name, text(folder + "/" + name)};
    };
    const auto read =
        daemon::AccessRules::of({file("tls.crt"), file("tls.key"), file("ca.crt")}, kNow);
    EXPECT_TRUE(read) << read.error().detail;
    return *read;
  }
  /// Returns the failure of a handshake with the daemon that has these files; empty: it succeeds.
  std::string connect(const tls::Trust& trust) const {
    return tls::Wire(tls::client_of(trust), rules()->server()).open();
  }
  /// Lets a client with each of these hashes and CAs connect, and a client with each token come.
  void expect_all_accepted(const std::string& step) const {
    for (const std::string& one : hashes_) EXPECT_EQ(connect(tls::CaHash{one}), "") << step;
    for (const auto& known : files_) EXPECT_EQ(connect(tls::KnownCas{known}), "") << step;
    for (const std::string& one : tokens_) EXPECT_TRUE(rules()->by_token(one, kNow)) << step;
  }
  void know() {
    hashes_.push_back(hash());
    files_.push_back(cas("ca"));
    tokens_.push_back(token());
  }

  TemporaryDirectory directory_;
  std::vector<std::string> hashes_;
  std::vector<std::vector<tls::Certificate>> files_;
  std::vector<std::string> tokens_;
};

void expect_usage(const Outcome& outcome, const std::string& why) {
  EXPECT_EQ(outcome.code, exit_code::kUsage) << outcome.output;
  EXPECT_NE(outcome.error.find(why), std::string::npos) << outcome.error;
}

TEST_F(CtlCaRenew, AtEachStepOldAndNewClientsAreAccepted) {
  init();
  for (int round = 1; round <= 3; ++round) {
    hashes_.clear();
    files_.clear();
    tokens_.clear();
    know();
    const Outcome begun = renew();
    ASSERT_EQ(begun.code, 0) << begun.error;
    EXPECT_NE(begun.output.find("4. when no daemon notes"), std::string::npos) << begun.output;
    const auto old_files = rules();
    EXPECT_EQ(connect(tls::CaHash{hashes_[0]}), "");
    EXPECT_TRUE(old_files->by_token(tokens_[0], kNow));
    put("ca/daemon/ca.crt", text("ca/ca.crt"));
    know();
    ASSERT_NE(hashes_[0], hashes_[1]);
    expect_all_accepted("after ca.crt was copied");
    EXPECT_FALSE(old_files->has_former_ca());
    EXPECT_TRUE(rules()->has_former_ca());
    EXPECT_TRUE(rules()->by_token(tokens_[0], kNow)->is_of_former_ca);
    EXPECT_FALSE(rules()->by_token(tokens_[1], kNow)->is_of_former_ca);
    ASSERT_EQ(daemon().code, 0);
    EXPECT_TRUE(rules()->certificate().is_signed_by(cas("ca").front().key()));
    expect_all_accepted("after the daemon has a new certificate");
    EXPECT_EQ(tls::Wire(old_files->to_daemons(), rules()->server()).open(), "")
        << "a daemon whose turn comes later";
    EXPECT_EQ(tls::Wire(rules()->to_daemons(), old_files->server()).open(), "");
    EXPECT_EQ(tls::Wire(rules()->to_own_daemon(), rules()->server()).open(), "");
    const Outcome finished = renew(true);
    ASSERT_EQ(finished.code, 0) << finished.error;
    expect_all_accepted("before the daemons know of the end");
    ASSERT_EQ(daemon().code, 0);
    EXPECT_EQ(cas("ca/daemon").size(), 1U);
    EXPECT_FALSE(rules()->has_former_ca());
    EXPECT_EQ(connect(tls::CaHash{hash()}), "");
    EXPECT_NE(connect(tls::CaHash{hashes_[0]}), "");
    EXPECT_FALSE(rules()->by_token(tokens_[0], kNow));
    EXPECT_TRUE(rules()->by_token(tokens_[1], kNow));
  }
}

TEST_F(CtlCaRenew, ACaWithoutRoomBelowItGetsThatRoom) {
  init_narrow();
  know();
  const auto old_files = rules();
  ASSERT_EQ(renew().code, 0);
  put("ca/daemon/ca.crt", text("ca/ca.crt"));
  files_.clear();  // who has the CA as a file gets the new file in this step
  know();
  expect_all_accepted("after ca.crt was copied");
  EXPECT_EQ(tls::Wire(old_files->to_daemons(), rules()->server()).open(), "");
  const auto copied = rules();
  ASSERT_EQ(daemon().code, 0);
  expect_all_accepted("after the daemon has a new certificate");
  EXPECT_EQ(tls::Wire(copied->to_daemons(), rules()->server()).open(), "");
  EXPECT_EQ(tls::Wire(rules()->to_daemons(), copied->server()).open(), "");
  EXPECT_NE(tls::Wire(old_files->to_daemons(), rules()->server()).open(), "")
      << "why ca.crt is copied to all daemons first";
}

TEST_F(CtlCaRenew, WhatWasInterruptedGoesOn) {
  init();
  know();
  const std::string key = text("ca/ca.key");
  const std::string certificate = text("ca/ca.crt");
  ASSERT_EQ(renew().code, 0);
  EXPECT_FALSE(exists(path("ca/next.key")));
  const std::string next = text("ca/ca.key");
  const std::string both = text("ca/ca.crt");
  const std::string cross = text("ca/cross.crt");
  // Before the new ca.crt: the old CA is still the CA, and a new renewal begins.
  put("ca/ca.key", key);
  put("ca/ca.crt", certificate);
  put("ca/next.key", next);
  fs::permissions(path("ca/next.key"), fs::perms(0600));
  EXPECT_EQ(hash(), hashes_[0]);
  ASSERT_EQ(daemon().code, 0);
  expect_all_accepted("as if nothing had happened");
  ASSERT_EQ(renew().code, 0);
  EXPECT_NE(text("ca/ca.crt"), both);
  // After it: the new one is the CA.
  put("ca/ca.key", key);
  put("ca/ca.crt", both);
  put("ca/cross.crt", cross);
  put("ca/next.key", next);
  fs::permissions(path("ca/next.key"), fs::perms(0600));
  know();
  ASSERT_EQ(daemon().code, 0);
  expect_all_accepted("before it is run again");
  ASSERT_EQ(renew().code, 0);
  EXPECT_EQ(text("ca/ca.key"), next);
  EXPECT_EQ(text("ca/ca.crt"), both);
  EXPECT_FALSE(exists(path("ca/next.key")));
  expect_usage(renew(), "is being renewed already, and its former CA (sha256:");
  // The end, before cross.crt was removed.
  ASSERT_EQ(renew(true).code, 0);
  put("ca/cross.crt", cross);
  ASSERT_EQ(daemon().code, 0);
  EXPECT_EQ(rules()->certificate().pem(), text("ca/daemon/tls.crt"));
  ASSERT_EQ(renew(true).code, 0);
  EXPECT_FALSE(exists(path("ca/cross.crt")));
}

TEST_F(CtlCaRenew, RefusesWhatIsWrong) {
  init();
  expect_usage(renew(true), "is not being renewed; c10ddctl ca renew ");
  ASSERT_EQ(renew().code, 0);
  const std::string before = text("ca/ca.crt") + text("ca/ca.key") + text("ca/cross.crt");
  expect_usage(renew(), "--finish first");
  EXPECT_EQ(text("ca/ca.crt") + text("ca/ca.key") + text("ca/cross.crt"), before);
  Arguments none{.operands = {path("none")}};
  expect_usage(ca_renew(none, kNow), "there is no folder ");
  const tls::Ca site;
  const tls::Key key = tls::Key::make();
  const tls::Certificate root =
      tls::make_ca({"below", {}, kNow, kNow + std::chrono::hours(9)}, key);
  fs::create_directory(path("below"));
  put("below/ca.crt", tls::make_cross(root, site.certificate, site.key).pem());
  put("below/ca.key", key.private_pem());
  fs::permissions(path("below/ca.key"), fs::perms(0600));
  Arguments below{.operands = {path("below")}};
  expect_usage(ca_renew(below, kNow), "another CA has signed ");
}

TEST_F(CtlCaRenew, OfSeveralAtOnceOneBegins) {
  init();
  std::vector<std::thread> threads;
  std::atomic<int> begun = 0;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] { begun += renew().code == 0 ? 1 : 0; });
  }
  std::atomic<int> failed = 0;
  std::thread beside([&] {
    for (int i = 0; i < 20; ++i) failed += token().empty() ? 1 : 0;
  });
  for (std::thread& one : threads) one.join();
  beside.join();
  EXPECT_EQ(begun, 1);
  EXPECT_EQ(failed, 0) << "tokens can be made all the time";
  EXPECT_EQ(daemon().code, 0);
  know();
  expect_all_accepted("afterwards");
}

TEST_F(CtlCaRenew, ACaBelowAnotherOneIsNoFormerOne) {
  init();
  const tls::Ca site;
  const tls::Certificate below = tls::make_cross(cas("ca").front(), site.certificate, site.key);
  put("ca/daemon/ca.crt", site.certificate.pem() + below.pem());
  EXPECT_FALSE(rules()->has_former_ca());
  EXPECT_TRUE(rules()->by_token(token(), kNow));
}

TEST_F(CtlCaRenew, OtherCasOfADaemonStay) {
  init();
  const tls::Ca other;
  put("ca/daemon/ca.crt", text("ca/ca.crt") + other.certificate.pem());
  const auto has_other = [&] {
    return std::ranges::any_of(cas("ca/daemon"), [&](const tls::Certificate& one) {
      return one.pem() == other.certificate.pem();
    });
  };
  ASSERT_EQ(renew().code, 0);
  ASSERT_EQ(daemon().code, 0);
  EXPECT_EQ(cas("ca/daemon").size(), 4U);
  EXPECT_TRUE(has_other());
  ASSERT_EQ(renew(true).code, 0);
  ASSERT_EQ(daemon().code, 0);
  EXPECT_EQ(cas("ca/daemon").size(), 2U);
  EXPECT_TRUE(has_other());
}

}  // namespace
}  // namespace c10dd::ctl
