// SPDX-License-Identifier: Apache-2.0
// c10ddctl ca: what it makes is what daemons and clients take, what is wrong is refused with a
// sentence, and nothing secret is shown.
#include "client/ctl/ca.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <atomic>
#include <boost/json/parse.hpp>
#include <filesystem>
#include <fstream>
#include <thread>

#include "client/ctl/secret_files.h"
#include "protocol/exit_codes.h"
#include "protocol/tls/token.h"
#include "tests/unit/protocol/tls_parties.h"
#include "tests/unit/temporary_directory.h"

namespace c10dd::ctl {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using tls::kNow;

constexpr auto kDays = 24h;

class CtlCa : public testing::Test {
 protected:
  std::string path(const std::string& name) const { return directory_.path() + "/" + name; }
  std::string text(const std::string& name) const {
    const Result<std::string> read = read_file(path(name));
    EXPECT_TRUE(read) << read.error().detail;
    return read ? *read : "";
  }
  int mode(const std::string& name) const {
    struct stat is {};
    return ::stat(path(name).c_str(), &is) == 0 ? static_cast<int>(is.st_mode & 07777) : -1;
  }
  /// Returns the outcome without the path of the folder of this test.
  Outcome plain(Outcome outcome) const {
    const std::string folder = directory_.path() + "/";
    for (std::string* text : {&outcome.output, &outcome.error}) {
      for (std::size_t at; (at = text->find(folder)) != text->npos;) text->erase(at, folder.size());
    }
    return outcome;
  }
  Outcome init(const std::string& folder = "ca", std::vector<std::string> hosts = {"head"}) const {
    Arguments of{.operands = {path(folder)}};
    of.ca.hosts = std::move(hosts);
    return plain(ca_init(of, kNow));
  }
  Outcome daemon(CaArguments options, tls::WallTime now = kNow,
                 const std::string& folder = "ca") const {
    if (!options.out.empty()) options.out = path(options.out);
    return plain(ca_daemon({.operands = {path(folder)}, .ca = std::move(options)}, now));
  }
  Outcome token(CaArguments options, tls::WallTime now = kNow,
                const std::string& folder = "ca") const {
    if (!options.out.empty()) options.out = path(options.out);
    return plain(ca_token({.operands = {path(folder)}, .ca = std::move(options)}, now));
  }
  Outcome show(const std::string& what, tls::WallTime now = kNow, bool json = false) const {
    return plain(ca_show({.json = json, .operands = {path(what)}}, now));
  }
  tls::Identity identity(const std::string& folder) const {
    const std::string name = folder + "/tls";
    auto read = tls::identity_of(text(name + ".crt"), "crt", text(name + ".key"), "key");
    EXPECT_TRUE(read) << read.error().detail;
    return *read;
  }
  std::vector<tls::Certificate> cas(const std::string& folder) const {
    return *tls::certificates_of(text(folder + "/ca.crt"), "ca.crt");
  }
  tls::Key ca_key() const { return *tls::Key::from_private_pem(text("ca/ca.key"), "ca.key"); }

  TemporaryDirectory directory_;
};

CaArguments of_alice() { return {.jobs = {"llm-*", "b"}, .name = "alice"}; }

void expect_refused(const Outcome& outcome, const std::string& why) {
  EXPECT_EQ(outcome.code, exit_code::kUsage) << outcome.output;
  EXPECT_EQ(outcome.error.find(why), 0U) << outcome.error << "\nis not: " << why;
  EXPECT_EQ(outcome.output, "");
}

TEST_F(CtlCa, InitMakesACaAndADaemonThatAClientTrusts) {
  const Outcome made = init("ca", {"head,10.0.0.1", "head", "localhost"});
  ASSERT_EQ(made.code, 0) << made.error;
  EXPECT_NE(made.output.find("--tls ca/daemon\n"), std::string::npos) << made.output;
  EXPECT_NE(made.output.find("c10ddctl ca token ca --name NAME --jobs PATTERN --out FILE\n"),
            std::string::npos);
  EXPECT_EQ(mode("ca"), 0700);
  EXPECT_EQ(mode("ca/daemon"), 0700);
  for (const char* file :
       {"ca.crt", "ca.key", "daemon/tls.crt", "daemon/tls.key", "daemon/ca.crt"}) {
    EXPECT_EQ(mode(std::string("ca/") + file), 0600) << file;
  }
  tls::Identity shown = identity("ca/daemon");
  EXPECT_EQ(
      shown.chain.front().hosts(),
      (std::vector<std::string>{"head", "localhost", "10.0.0.1", "127.0.0.1", "0:0:0:0:0:0:0:1"}));
  EXPECT_EQ(shown.chain.front().ends(), kNow + 365 * kDays);
  const std::vector<tls::Certificate> ca = cas("ca");
  ASSERT_EQ(ca.size(), 1U);
  EXPECT_EQ(ca[0].ends(), kNow + 3650 * kDays);
  EXPECT_EQ(ca[0].pem(), text("ca/daemon/ca.crt"));
  EXPECT_TRUE(shown.chain.front().is_signed_by(ca[0].key()));
  EXPECT_FALSE(shown.chain.front().is_signed_by(shown.key));
  shown.chain.push_back(ca[0]);
  for (const tls::Trust& trust :
       {tls::Trust(tls::KnownCas{ca}), tls::Trust(tls::CaHash{ca[0].key().hash()})}) {
    EXPECT_EQ(tls::Wire(tls::client_of(trust), tls::server_of(shown)).open(), "");
  }
}

TEST_F(CtlCa, InitRefusesAFolderWithACa) {
  ASSERT_EQ(init().code, 0);
  const std::string before = text("ca/ca.key") + text("ca/ca.crt") + text("ca/daemon/tls.crt");
  expect_refused(init(), "ca already has a CA; c10ddctl ca daemon ca makes the files of another");
  expect_refused(init("ca/"), "ca already has a CA; ");
  EXPECT_EQ(text("ca/ca.key") + text("ca/ca.crt") + text("ca/daemon/tls.crt"), before);
  fs::remove(path("ca/ca.crt"));
  expect_refused(init(), "ca already has a CA; ");
  fs::remove(path("ca/ca.key"));
  expect_refused(init(), "ca/daemon exists already; give another folder, or remove it");
  fs::remove_all(path("ca/daemon"));
  EXPECT_EQ(init().code, 0) << "an empty folder is taken";
  expect_refused(init("ca/ca.crt"), "ca/ca.crt is not a folder");
  expect_refused(init("x", {}), "c10ddctl ca init needs a host; give --host HOST");
  expect_refused(init("x", {"a b"}), "host \"a b\" is neither a DNS name nor an address");
  expect_refused(init("x", {""}), "host \"\" is neither a DNS name nor an address");
  expect_refused(init("x", std::vector<std::string>(1, "a:29500")), "host \"a:29500\" is neither");
  std::vector<std::string> many;
  for (int i = 0; i < 254; ++i) many.push_back("h" + std::to_string(i));
  expect_refused(init("x", many), "a certificate for 257 hosts was asked for, limit 256");
  fs::create_directory(path("open"));
  ::chmod(path("open").c_str(), 0777);
  expect_refused(init("open"), "every user of this machine may replace the files of open");
  EXPECT_FALSE(exists(path("x")));
}

TEST_F(CtlCa, InitLeavesNothingIfItFails) {
  const Outcome no_parent = init("none/ca");
  EXPECT_EQ(no_parent.code, exit_code::kCannotCreate);
  EXPECT_EQ(no_parent.error.find("cannot make the folder none/ca (No such file or directory)"), 0U);
  fs::create_directory(path("there"));
  std::ofstream(path("there/other")) << "kept";
  struct rlimit before {};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const auto old_action = ::signal(SIGXFSZ, SIG_IGN);
  for (const rlim_t most : {0, 100, 400}) {  // a key fits into 400 bytes, a certificate does not
    const struct rlimit small { most, before.rlim_max };
    ::setrlimit(RLIMIT_FSIZE, &small);
    const Outcome fresh = init("ca");
    const Outcome in_folder = init("there");
    ::setrlimit(RLIMIT_FSIZE, &before);
    EXPECT_EQ(fresh.code, exit_code::kCannotCreate);
    EXPECT_EQ(in_folder.code, exit_code::kCannotCreate);
    EXPECT_NE(in_folder.error.find("(File too large)"), std::string::npos) << in_folder.error;
    EXPECT_FALSE(exists(path("ca")));
    EXPECT_FALSE(exists(path("there/daemon")) || exists(path("there/ca.key")));
    EXPECT_EQ(text("there/other"), "kept");
  }
  ::signal(SIGXFSZ, old_action);
}

TEST_F(CtlCa, DaemonMakesFilesForAnotherHost) {
  ASSERT_EQ(init().code, 0);
  const Outcome made = daemon({.hosts = {"n2", "n3"}, .out = "n2"});
  ASSERT_EQ(made.code, 0) << made.error;
  EXPECT_EQ(made.output.find("made the files of a daemon in n2, valid until "), 0U);
  EXPECT_EQ(mode("n2"), 0700);
  for (const char* file : {"n2/tls.crt", "n2/tls.key", "n2/ca.crt"}) EXPECT_EQ(mode(file), 0600);
  EXPECT_EQ(identity("n2").chain.front().hosts(), (std::vector<std::string>{"n2", "n3"}));
  EXPECT_EQ(text("n2/ca.crt"), text("ca/ca.crt"));
  ASSERT_EQ(daemon({.hosts = {"a"}, .ttl = "36h", .out = "short"}).code, 0);
  EXPECT_EQ(identity("short").chain.front().ends(), kNow + 36h);
  ASSERT_EQ(daemon({.hosts = {"a"}, .out = "late"}, kNow + 3600 * kDays).code, 0);
  EXPECT_EQ(identity("late").chain.front().ends(), cas("ca")[0].ends()) << "not after its CA";
}

TEST_F(CtlCa, DaemonRefusesWhatIsWrong) {
  ASSERT_EQ(init().code, 0);
  ASSERT_EQ(init("other").code, 0);
  expect_refused(daemon({.hosts = {"a"}}), "c10ddctl ca daemon needs a folder for the files");
  expect_refused(daemon({.out = "n2"}), "c10ddctl ca daemon needs a host; give --host HOST");
  expect_refused(daemon({.hosts = {"a/b"}, .out = "n2"}), "host \"a/b\" is neither a DNS name");
  expect_refused(daemon({.hosts = {"a"}, .out = "ca"}), "ca has the key of a CA");
  expect_refused(daemon({.hosts = {"a"}, .out = "ca/ca.crt"}), "ca/ca.crt is not a folder");
  expect_refused(daemon({.hosts = {"a"}, .out = "other/daemon"}),
                 "other/daemon has files of a daemon, but its ca.crt does not have the CA in ca; ");
  for (const char* ttl : {"0", "-1d", "nand", "3651d", "1y", "d", "0.5s"}) {
    expect_refused(daemon({.hosts = {"a"}, .ttl = ttl, .out = "n2"}),
                   "--ttl is \"" + std::string(ttl) + "\", but must be a time from 1s to 3650d");
  }
  expect_refused(daemon({.hosts = {"a"}, .ttl = "3650d", .out = "n2"}, kNow + 10s),
                 "--ttl is \"3650d\", which ends after the CA itself, at ");
  EXPECT_FALSE(exists(path("n2")));
  EXPECT_EQ(daemon({.hosts = {"a"}, .out = "none/n2"}).code, exit_code::kCannotCreate);
}

TEST_F(CtlCa, EachCommandNamesWhatIsWrongWithTheCa) {
  ASSERT_EQ(init().code, 0);
  const auto expect = [&](const std::string& why, tls::WallTime now = kNow,
                          const std::string& folder = "ca") {
    expect_refused(token(of_alice(), now, folder), why);
    expect_refused(daemon({.hosts = {"a"}, .out = "n2"}, now, folder), why);
  };
  expect("there is no folder none; make a CA in it with c10ddctl ca init", kNow, "none");
  expect("ca/daemon has no ca.key; give the folder of a CA", kNow, "ca/daemon");
  expect("the CA in ca has expired at 20", kNow + 3650 * kDays);
  expect("the CA in ca begins at 20", kNow - 2h);
  ::chmod(path("ca/ca.key").c_str(), 0604);
  expect("ca/ca.key may be read by every user of this machine; run chmod o-rwx ca/ca.key");
  ::chmod(path("ca/ca.key").c_str(), 0600);
  const std::string certificate = text("ca/ca.crt");
  const auto put = [&](const std::string& name, const std::string& of) {
    std::ofstream(path(name), std::ios::binary) << of;
  };
  put("ca/ca.crt", text("ca/daemon/tls.crt"));
  expect("the key in ca/ca.key does not belong to the first certificate in ca/ca.crt; restore");
  const std::string key = text("ca/ca.key");
  put("ca/ca.key", text("ca/daemon/tls.key"));
  expect("ca/ca.crt is not the certificate of a CA; give the folder of a CA");
  put("ca/ca.crt", certificate);
  put("ca/ca.key", "no key");
  expect("ca/ca.key has no private key in PEM");
  fs::remove(path("ca/ca.crt"));
  expect("ca has no ca.crt; give the folder of a CA, which c10ddctl ca init makes");
  EXPECT_FALSE(exists(path("n2")));
}

TEST_F(CtlCa, RenewalReplacesCertificateAndKeyTogether) {
  ASSERT_EQ(init().code, 0);
  const std::string certificate = text("ca/daemon/tls.crt");
  const std::string key = text("ca/daemon/tls.key");
  const std::string more = text("ca/ca.crt") + tls::Ca().certificate.pem();
  std::ofstream(path("ca/daemon/ca.crt")) << more;
  const Outcome renewed = daemon({.out = "ca/daemon"}, kNow + 30 * kDays);
  ASSERT_EQ(renewed.code, 0) << renewed.error;
  EXPECT_EQ(renewed.output.find("renewed the files of a daemon in ca/daemon"), 0U);
  const tls::Identity now = identity("ca/daemon");
  EXPECT_EQ(now.chain.front().ends(), kNow + 395 * kDays);
  EXPECT_EQ(now.chain.front().hosts().size(), 4U) << "those of the old certificate";
  EXPECT_NE(text("ca/daemon/tls.crt"), certificate);
  EXPECT_NE(text("ca/daemon/tls.key"), key);
  EXPECT_EQ(text("ca/daemon/ca.crt"), more) << "further CAs stay trusted";
  EXPECT_EQ(mode("ca/daemon/tls.key"), 0600);
  ASSERT_EQ(daemon({.hosts = {"new"}, .out = "ca/daemon"}).code, 0);
  EXPECT_EQ(identity("ca/daemon").chain.front().hosts(), std::vector<std::string>{"new"});
  fs::remove(path("ca/daemon/tls.crt"));
  ASSERT_EQ(daemon({.hosts = {"again"}, .out = "ca/daemon"}).code, 0) << "half of a pair is mended";
  EXPECT_EQ(identity("ca/daemon").chain.front().hosts(), std::vector<std::string>{"again"});
  std::ofstream(path("ca/daemon/tls.crt")) << "damaged";
  expect_refused(daemon({.out = "ca/daemon"}), "ca/daemon/tls.crt has no certificate in PEM; give");
  const auto files = fs::directory_iterator(path("ca/daemon"));
  EXPECT_EQ(std::distance(files, fs::directory_iterator()), 3) << "a draft is left";
}

TEST_F(CtlCa, AReaderNeverSeesHalfAFile) {
  ASSERT_EQ(init().code, 0);
  std::atomic<bool> ended = false;
  std::atomic<int> damaged = 0;
  std::thread reader([&] {
    while (!ended) {
      const auto crt = read_file(path("ca/daemon/tls.crt"));
      const auto key = read_file(path("ca/daemon/tls.key"));
      if (!crt || !key || !tls::certificates_of(*crt, "") || !tls::Key::from_private_pem(*key, ""))
        ++damaged;
    }
  });
  const auto renew = [&] {
    for (int i = 0; i < 10; ++i) EXPECT_EQ(daemon({.out = "ca/daemon"}).code, 0);
  };
  std::thread other(renew);
  renew();
  other.join();
  ended = true;
  reader.join();
  EXPECT_EQ(damaged, 0);
  identity("ca/daemon");  // certificate and key are of the same one of both renewals
}

TEST_F(CtlCa, TokenIsSignedByTheCa) {
  ASSERT_EQ(init().code, 0);
  const Outcome printed = token(of_alice());
  ASSERT_EQ(printed.code, 0) << printed.error;
  EXPECT_EQ(std::ranges::count(printed.output, '\n'), 1);
  const auto read = tls::token_of(printed.output);
  ASSERT_TRUE(read) << read.error().detail;
  EXPECT_TRUE(tls::check(*read, ca_key(), kNow));
  EXPECT_TRUE(tls::check(*read, ca_key(), kNow - 30min)) << "the daemon's clock is behind";
  const auto own = tls::own_token(*read);
  ASSERT_TRUE(own) << own.error().detail;
  EXPECT_EQ(own->name, "alice");
  EXPECT_EQ(own->role, "trainer");
  EXPECT_EQ(own->jobs, (std::vector<std::string>{"llm-*", "b"}));
  EXPECT_EQ(own->ends, kNow + 30 * kDays);
  EXPECT_EQ(own->ca_hash, cas("ca/daemon")[0].key().hash());
  CaArguments admin = of_alice();
  admin.role = "admin";
  admin.ttl = "400d";
  const auto longest = tls::token_of(token(admin).output);
  ASSERT_TRUE(longest);
  EXPECT_EQ(tls::own_token(*longest)->role, "admin");
  EXPECT_EQ(*longest->ends, kNow + 400 * kDays);
}

TEST_F(CtlCa, TokenInAFileReplacesOnlyAnOlderOneOfItsName) {
  ASSERT_EQ(init().code, 0);
  CaArguments to_file = of_alice();
  to_file.out = "token";
  const Outcome made = token(to_file);
  ASSERT_EQ(made.code, 0) << made.error;
  EXPECT_EQ(
      made.output.find("wrote the token of alice to token: role trainer in jobs llm-*, b, valid"),
      0U);
  EXPECT_EQ(mode("token"), 0600);
  const std::string first = text("token");
  EXPECT_EQ(made.output.find(first.substr(0, 20)), std::string::npos) << "it shows the token";
  ASSERT_EQ(token(to_file, kNow + 40 * kDays).code, 0) << "also after the old one has expired";
  EXPECT_EQ(*tls::token_of(text("token"))->ends, kNow + 70 * kDays);
  EXPECT_EQ(mode("token"), 0600);
  CaArguments bob = to_file;
  bob.name = "bob";
  expect_refused(token(bob), "token has the token of alice, not of bob; give another --out");
  std::ofstream(path("notes")) << "mine";
  bob.out = "notes";
  expect_refused(token(bob), "notes exists and is not a token of c10ddctl; give another --out");
  EXPECT_EQ(text("notes"), "mine");
  bob.out = "none/token";
  EXPECT_EQ(token(bob).code, exit_code::kCannotCreate);
}

TEST_F(CtlCa, TokenRefusesWhatIsWrong) {
  ASSERT_EQ(init().code, 0);
  const auto refused = [&](auto change, const std::string& why) {
    CaArguments options = of_alice();
    change(options);
    expect_refused(token(options), why);
  };
  for (const std::string& name :
       {std::string(), std::string(256, 'a'), std::string("a\nb"), std::string("\xff"),
        std::string("\xe2\x80\xae"), std::string("alice ")}) {
    refused([&](CaArguments& of) { of.name = name; },
            "--name is wrong, because the principal name ");
  }
  refused([](CaArguments& of) { of.jobs.push_back("llm "); },
          "--jobs is wrong, because the job name \"llm \" ends with a blank");
  refused([](CaArguments& of) { of.jobs.push_back("a\xe2\x80\x8b*"); },
          "--jobs is wrong, because the job name \"a");
  refused([](CaArguments& of) { of.name = "cert:spiffe"; },
          "--name is \"cert:spiffe\", but must not contain a colon");
  refused([](CaArguments& of) { of.jobs.clear(); }, "a token needs a pattern of jobs; give --jobs");
  refused([](CaArguments& of) { of.jobs.push_back(""); },
          "--jobs is wrong, because a pattern of jobs has 0 bytes, but needs 1 to 255");
  refused([](CaArguments& of) { of.jobs = {"a*b"}; },
          "--jobs is wrong, because \"a*b\" has a * that is not at the end");
  refused([](CaArguments& of) { of.jobs = {"\xff"}; }, "--jobs is wrong, because the job name");
  refused(
      [](CaArguments& of) { of.role = "amdin"; },
      "--role is \"amdin\", but must be one of viewer, trainer, admin; did you mean \"admin\"?");
  refused([](CaArguments& of) { of.ttl = "401d"; },
          "--ttl is \"401d\", but must be a time from 1s to 400d; write for example 12h or 30d");
  refused([](CaArguments& of) { of.jobs.assign(40, std::string(250, 'a')); },
          "the token would have ");
  CaArguments late = of_alice();
  late.ttl = "2d";
  expect_refused(token(late, kNow + 3649 * kDays),
                 "--ttl is \"2d\", which ends after the CA itself");
  late.ttl = "";
  EXPECT_EQ(token(late, kNow + 3649 * kDays).code, 0) << "the default ends with the CA";
}

TEST_F(CtlCa, ShowSaysWhatIsInAFolder) {
  ASSERT_EQ(init().code, 0);
  const Outcome ca = show("ca");
  EXPECT_EQ(ca.code, 0) << ca.error;
  EXPECT_EQ(ca.output.find("file: ca/ca.crt\nkind: certificate of a CA\nname: c10dd CA "), 0U);
  EXPECT_NE(ca.output.find("state: valid for 3650 days\nca hash: sha256:"), std::string::npos);
  EXPECT_NE(ca.output.find("key: fits\n"), std::string::npos);
  const Outcome both = show("ca/daemon");
  EXPECT_NE(both.output.find("hosts: head, localhost, 127.0.0.1"), std::string::npos);
  EXPECT_NE(both.output.find("signed by: sha256:"), std::string::npos);
  EXPECT_NE(both.output.find("key: fits\n"), std::string::npos);
  EXPECT_EQ(show("ca/daemon/tls.crt").output.find("key:"), std::string::npos);
  const Outcome old = show("ca/daemon", kNow + 367 * kDays);
  EXPECT_EQ(old.code, 0);
  EXPECT_NE(old.output.find("state: expired 2 days ago\n"), std::string::npos) << old.output;
  EXPECT_NE(show("ca", kNow - 3h).output.find("state: not valid yet; begins in 2 hours\n"),
            std::string::npos);
  const auto page = boost::json::parse(show("ca/daemon", kNow, true).output);
  const auto& item = page.at("items").at(1);
  EXPECT_EQ(item.at("hosts").at(0), "head");
  EXPECT_FALSE(item.at("expired").as_bool());
  ASSERT_EQ(init("other").code, 0);
  fs::copy(path("other/daemon/tls.key"), path("ca/daemon/tls.key"),
           fs::copy_options::overwrite_existing);
  EXPECT_NE(show("ca/daemon").output.find("key: does not fit, because the key in "),
            std::string::npos);
  fs::remove(path("ca/daemon/tls.key"));
  fs::copy(path("other/daemon/tls.crt"), path("ca/daemon/tls.crt"),
           fs::copy_options::overwrite_existing);
  const Outcome mixed = show("ca/daemon");
  EXPECT_NE(mixed.output.find("key: missing\n"), std::string::npos) << mixed.output;
  EXPECT_NE(mixed.output.find("signed by: none of ca.crt; issue it again"), std::string::npos);
}

TEST_F(CtlCa, ShowSaysWhatATokenSaysButNotTheToken) {
  ASSERT_EQ(init().code, 0);
  CaArguments options = of_alice();
  options.out = "token";
  ASSERT_EQ(token(options).code, 0);
  const Outcome shown = show("token");
  EXPECT_EQ(shown.output.find("file: token\nkind: token\nname: alice\nrole: trainer\n"
                              "jobs: llm-*, b\n"),
            0U)
      << shown.output;
  EXPECT_NE(shown.output.find("state: valid for 30 days\n"), std::string::npos);
  EXPECT_NE(shown.output.find("signature: not checked\n"), std::string::npos);
  EXPECT_NE(show("token", kNow + 30 * kDays).output.find("state: expired 0 s ago\n"),
            std::string::npos);
  const std::string secret = text("token");
  const std::size_t dot = secret.find('.');
  const std::string signature = secret.substr(secret.rfind('.') + 1, 20);
  for (const Outcome& one : {shown, show("token", kNow, true)}) {
    EXPECT_EQ(one.output.find(signature), std::string::npos);
    EXPECT_EQ(one.output.find(secret.substr(dot + 1, 20)), std::string::npos);
  }
  const std::string of_other = tls::Key::make().private_pem();
  for (const char* folder : {"ca", "ca/daemon", "ca/ca.crt"}) {
    EXPECT_EQ(show(folder).output.find("-----"), std::string::npos);
  }
  std::ofstream(path("both.pem")) << text("ca/daemon/tls.crt") << of_other;
  EXPECT_EQ(show("both.pem").output.find("PRIVATE"), std::string::npos);
  std::ofstream(path("spoof")) << tls::signed_token(
      {"a\nrole: admin", "viewer", {"x\ny"}, kNow, kNow + 1h, {}}, tls::Key::make());
  EXPECT_NE(show("spoof").output.find("name: a?role: admin\nrole: viewer\njobs: x?y\n"),
            std::string::npos);
}

TEST_F(CtlCa, ShowRefusesWhatItCannotRead) {
  ASSERT_EQ(init().code, 0);
  expect_refused(show("none"), "there is no file or folder none; check the path");
  expect_refused(show("ca/ca.key"), "ca/ca.key is a private key, which c10ddctl does not show");
  fs::create_directory(path("empty"));
  expect_refused(show("empty"), "empty has neither ca.crt nor tls.crt; give the folder of a CA");
  std::ofstream(path("notes")) << "text";
  expect_refused(show("notes"), "notes is neither a certificate nor a token; give one of these");
  std::ofstream(path("damaged")) << text("ca/ca.crt").substr(0, 100);
  expect_refused(show("damaged"), "certificate 1 of damaged is damaged; give another file");
}

TEST_F(CtlCa, JsonShowsWhatWasMade) {
  Arguments of{.json = true, .operands = {path("ca")}};
  of.ca.hosts = {"head"};
  const auto made = boost::json::parse(ca_init(of, kNow).output);
  EXPECT_EQ(made.at("items").as_array().size(), 3U);
  of.ca = of_alice();
  const auto token = boost::json::parse(ca_token(of, kNow).output);
  EXPECT_TRUE(tls::token_of(token.at("token").as_string()));
  of.ca.out = path("token");
  EXPECT_EQ(boost::json::parse(ca_token(of, kNow).output).at("items").at(0).at("name"), "alice");
}

}  // namespace
}  // namespace c10dd::ctl
