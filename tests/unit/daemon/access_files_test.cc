// SPDX-License-Identifier: Apache-2.0
// The files of --tls and --grants on a disk: what is missing or open to all is named, and what was
// renewed is noticed.
#include "daemon/config/access_files.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/unit/temporary_directory.h"

namespace c10dd::daemon {
namespace {

class AccessFilesTest : public testing::Test {
 protected:
  AccessFilesTest() {
    for (const char* name : {"tls.crt", "tls.key", "ca.crt"}) write(name, name);
    ::chmod(path("tls.key").c_str(), 0600);
  }
  std::string path(const std::string& name) const { return directory_.path() + "/" + name; }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(path(name), std::ios::binary) << text;
  }
  std::string why_refused(AccessFiles& files) const {
    const auto texts = files.read();
    return texts ? "" : texts.error().detail.substr(directory_.path().size() + 1);
  }

  TemporaryDirectory directory_;
};

TEST_F(AccessFilesTest, ReadsAllThatBelongTogether) {
  AccessFiles alone(directory_.path(), "");
  const auto texts = alone.read();
  ASSERT_TRUE(texts) << texts.error().detail;
  EXPECT_EQ(texts->chain.text, "tls.crt");
  EXPECT_EQ(texts->key.path, path("tls.key"));
  EXPECT_EQ(texts->ca.text, "ca.crt");
  EXPECT_TRUE(texts->grants.issuers.empty());
  write("grants.toml", "[[issuer]]\nname = \"k\"\nissuer = \"i\"\naudience = \"a\"\njwks = \"" +
                           path("keys.json") + "\"\n");
  write("keys.json", "{}");
  AccessFiles both(directory_.path(), path("grants.toml"));
  const auto more = both.read();
  ASSERT_TRUE(more) << more.error().detail;
  ASSERT_EQ(more->jwks.size(), 1U);
  EXPECT_EQ(more->jwks[0].text, "{}");
  EXPECT_EQ(more->grants.issuers.at(0).name, "k");
}

TEST_F(AccessFilesTest, NamesWhatIsMissing) {
  AccessFiles files(directory_.path(), path("grants.toml"));
  EXPECT_EQ(why_refused(files), "grants.toml: cannot read this file: No such file or directory");
  write("grants.toml", "x");
  EXPECT_FALSE(files.read()) << "it is no TOML";
  std::filesystem::remove(path("ca.crt"));
  EXPECT_EQ(why_refused(files), "ca.crt: cannot read this file: No such file or directory");
  AccessFiles none(directory_.path() + "/none", "");
  EXPECT_EQ(why_refused(none),
            "none: there is no such folder; make one with c10ddctl ca init, or copy tls.crt, "
            "tls.key and ca.crt to it");
  write("tls.crt", std::string(2'000'000, 'x'));
  EXPECT_EQ(why_refused(files), "tls.crt: this file is longer than the limit of 1048576 bytes");
}

TEST_F(AccessFilesTest, AKeyThatEveryUserMayReadIsRefused) {
  AccessFiles files(directory_.path(), "");
  ::chmod(path("tls.key").c_str(), 0644);
  EXPECT_EQ(why_refused(files),
            "tls.key: every user may read this key; run chmod o-rwx " + path("tls.key") +
                "; if it is of a Kubernetes Secret, give the volume defaultMode: 0440, and the "
                "Pod's securityContext fsGroup");
  ::chmod(path("tls.key").c_str(), 0640);
  EXPECT_TRUE(files.read()) << "a group may, as in a pod";
}

TEST_F(AccessFilesTest, NoticesEachChange) {
  write("grants.toml", "[[issuer]]\nname = \"k\"\nissuer = \"i\"\naudience = \"a\"\njwks = \"" +
                           path("keys.json") + "\"\n");
  write("keys.json", "{}");
  AccessFiles files(directory_.path(), path("grants.toml"));
  ASSERT_TRUE(files.read());
  std::string before = files.state();
  EXPECT_EQ(files.state(), before);
  for (const char* name : {"tls.crt", "tls.key", "ca.crt", "grants.toml", "keys.json"}) {
    std::ofstream(path(name), std::ios::app) << " ";
    EXPECT_NE(files.state(), before) << name;
    before = files.state();
    write("new", "same");
    std::filesystem::rename(path("new"), path(name));
    EXPECT_NE(files.state(), before) << name;
    before = files.state();
  }
  std::filesystem::remove(path("ca.crt"));
  EXPECT_NE(files.state(), before);
}

TEST_F(AccessFilesTest, NoticesALinkThatPointsElsewhereAsInAPod) {
  const std::string mounted = path("mounted");
  for (const char* version : {"..1", "..2"}) {
    std::filesystem::create_directories(mounted + "/" + version);
    for (const char* name : {"tls.crt", "tls.key", "ca.crt"}) {
      std::filesystem::copy(path(name), mounted + "/" + version + "/" + name);
    }
  }
  std::filesystem::create_symlink("..1", mounted + "/..data");
  for (const char* name : {"tls.crt", "tls.key", "ca.crt"}) {
    std::filesystem::create_symlink(std::string("..data/") + name, mounted + "/" + name);
  }
  AccessFiles files(mounted, "");
  ASSERT_TRUE(files.read()) << files.read().error().detail;
  const std::string before = files.state();
  std::filesystem::create_symlink("..2", mounted + "/..next");
  std::filesystem::rename(mounted + "/..next", mounted + "/..data");
  EXPECT_NE(files.state(), before);
}

}  // namespace
}  // namespace c10dd::daemon
