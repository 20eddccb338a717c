// SPDX-License-Identifier: Apache-2.0
// Values of options that are read without a command line: engines, and hosts of HTTP requests.
#include "daemon/config/option_values.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <string>

namespace c10dd::daemon {
namespace {

TEST(HostField, LoopbackListenerAnswersToItsOwnNamesAndThoseThatAreAllowed) {
  Options options;
  options.listen_host = "127.0.0.1";
  options.http_hosts = "head,Tunnel.LAN";
  for (const char* host : {"localhost", "LOCALHOST:1", "127.0.0.1:29500", "127.8.0.1", "[::1]:80",
                           "head", "head:29500", "tunnel.lan"}) {
    EXPECT_TRUE(replies_to(options, host)) << host;
  }
  for (const char* host : {"",
                           "evil.example",
                           "127.0.0.1.evil.example",
                           "localhost.evil.example:80",
                           "10.0.0.1",
                           "[::2]",
                           "[",
                           "[::1",
                           "head.lan",
                           ":80",
                           "localhost:1@evil",
                           "localhost:1@evil:80",
                           "localhost:",
                           "localhost:x",
                           "localhost:+1",
                           "localhost:-1",
                           "localhost: 1",
                           "localhost:1 ",
                           "localhost:65536",
                           "localhost:1:2",
                           "localhost ",
                           " localhost",
                           "localhost/",
                           "localhost#",
                           "localhost,evil",
                           "localhost\\@evil",
                           "me@localhost",
                           "[localhost]",
                           "[127.0.0.1]",
                           "[::1]:",
                           "[::1]x",
                           "[::1]:x",
                           "[::1]@evil",
                           "[[::1]]",
                           "::1",
                           "head:1@evil",
                           "@head",
                           "head,tunnel.lan"}) {
    EXPECT_FALSE(replies_to(options, host)) << host;
  }
  options.listen_host = "0.0.0.0";
  EXPECT_TRUE(replies_to(options, "any.example"));
}

std::string refused_engine(const std::string& text) {
  Options options;
  const Result<void> set = set_engine(options, text);
  return set ? "accepted" : set.error().detail;
}

TEST(EngineOption, APathAloneIsNoEngine) {
  const std::string forms = "use memory:, rocksdb:/path or redis://host:port";
  const std::string here = std::filesystem::current_path().string();
  EXPECT_EQ(refused_engine("/var/lib/x"),
            "invalid engine \"/var/lib/x\"; did you mean \"rocksdb:/var/lib/x\"? " + forms);
  EXPECT_EQ(refused_engine("./state"),
            "invalid engine \"./state\"; did you mean \"rocksdb:" + here + "/state\"? " + forms);
  EXPECT_EQ(refused_engine("floppy:/x"), "invalid engine \"floppy:/x\"; " + forms);
}

TEST(EngineOption, ARelativePathIsRefusedWithTheAbsoluteOne) {
  const std::string here = std::filesystem::current_path().string();
  EXPECT_EQ(refused_engine("rocksdb:state/./x"),
            "invalid engine \"rocksdb:state/./x\": the path is relative; use rocksdb:" + here +
                "/state/x");
  EXPECT_EQ(refused_engine("rocksdb:/state"), "accepted");
}

TEST(EngineOption, TheRootIsNoPlaceForAState) {
  for (const std::string root : {"rocksdb:/", "rocksdb://", "rocksdb:///", "rocksdb:/tmp/.."}) {
    EXPECT_EQ(refused_engine(root),
              "invalid engine \"" + root +
                  "\": the state would be in /; use a directory of its own, as in "
                  "rocksdb:/var/lib/c10dd");
  }
  Options options;
  ASSERT_TRUE(set_engine(options, "rocksdb:/tmp/../var/./x/"));
  EXPECT_EQ(state_path(options), "/var/x/");
}

TEST(EngineOption, TheDefaultHasAnAbsolutePath) {
  ::setenv("STATE_DIRECTORY", "state", 1);
  EXPECT_EQ(*default_engine(), "rocksdb:" + std::filesystem::current_path().string() + "/state");
  ::unsetenv("STATE_DIRECTORY");
}

TEST(EngineOption, OnlyRocksDbHasAStatePath) {
  Options options;
  options.engine = "rocksdb:/a/b";
  EXPECT_EQ(state_path(options), "/a/b");
  options.engine = "redis://h:1";
  EXPECT_EQ(state_path(options), "");
}

}  // namespace
}  // namespace c10dd::daemon
