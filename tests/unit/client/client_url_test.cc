// SPDX-License-Identifier: Apache-2.0
// URLs and environments: what is accepted, and that an error names the part that is wrong.
#include "client/internal/url.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

namespace c10dd::client {
namespace {

TEST(ClientUrl, HasHostPortAndJob) {
  const Result<Url> url = parse_url("c10dd://node7.cluster:1234/digits");
  ASSERT_TRUE(url.has_value());
  ASSERT_EQ(url->daemons.size(), 1u);
  EXPECT_EQ(url->daemons[0].host, "node7.cluster");
  EXPECT_EQ(url->daemons[0].port, 1234);
  EXPECT_EQ(url->job, "digits");
  EXPECT_EQ(url->addresses(), "node7.cluster:1234");
  EXPECT_EQ(url->text(), "c10dd://node7.cluster:1234/digits");
}

TEST(ClientUrl, HasTheDefaultPort) {
  EXPECT_EQ(parse_url("c10dd://localhost/j")->addresses(), "localhost:29500");
  EXPECT_EQ(parse_url("c10dd://[::1]/j")->addresses(), "[::1]:29500");
}

TEST(ClientUrl, HasBracketsAroundIpv6) {
  const Result<Url> url = parse_url("c10dd://[fe80::1%eth0]:29501/j");
  ASSERT_TRUE(url.has_value());
  EXPECT_EQ(url->daemons.at(0).host, "fe80::1%eth0");
  EXPECT_EQ(url->addresses(), "[fe80::1%eth0]:29501");
}

TEST(ClientUrl, HasTheAddressesOfSeveralDaemons) {
  const Result<Url> url = parse_url("c10dd://a:1,b,[::1]:3/j");
  ASSERT_TRUE(url.has_value()) << url.error().detail;
  EXPECT_EQ(url->daemons, (std::vector<HostPort>{{"a", 1}, {"b", 29500}, {"::1", 3}}));
  EXPECT_EQ(url->job, "j");
  EXPECT_EQ(url->addresses(), "a:1,b:29500,[::1]:3");
  EXPECT_EQ(url->text(), "c10dd://a:1,b:29500,[::1]:3/j");
}

std::string url_of(std::size_t daemons) {
  std::string list;
  for (std::size_t i = 0; i < daemons; ++i) list += (i == 0 ? "h" : ",h") + std::to_string(i);
  return "c10dd://" + list + "/j";
}

TEST(ClientUrl, HasAtMost16Addresses) {
  const Result<Url> most = parse_url(url_of(16));
  ASSERT_TRUE(most.has_value()) << most.error().detail;
  EXPECT_EQ(most->daemons.size(), 16u);
  const Result<Url> more = parse_url(url_of(17));
  ASSERT_FALSE(more.has_value());
  EXPECT_NE(more.error().detail.find("it has 17 addresses, limit 16; leave some out"),
            std::string::npos)
      << more.error().detail;
}

TEST(ClientUrl, HasAPercentEncodedJob) {
  const std::pair<const char*, const char*> jobs[] = {{"a%20b", "a b"},        {"100%25", "100%"},
                                                      {"%e2%82%AC", "\u20ac"}, {"%41%3a%7E", "A:~"},
                                                      {"%2525", "%25"},        {"a b+c", "a b+c"}};
  for (const auto& [written, job] : jobs) {
    const Result<Url> url = parse_url(std::string("c10dd://h:1/") + written);
    ASSERT_TRUE(url.has_value()) << url.error().detail;
    EXPECT_EQ(url->job, job);
    EXPECT_EQ(parse_url(url->text())->job, job) << url->text();
  }
}

TEST(ClientUrl, HasALimitOfTheDecodedJob) {
  std::string job;
  for (int i = 0; i < 255; ++i) job += "%41";
  EXPECT_EQ(parse_url("c10dd://h:1/" + job)->job, std::string(255, 'A'));
  EXPECT_FALSE(parse_url("c10dd://h:1/" + job + "%41"));
}

struct BadUrl {
  const char* name;
  std::string url;
  const char* says;
};

class ClientUrlError : public testing::TestWithParam<BadUrl> {};

TEST_P(ClientUrlError, NamesThePart) {
  const Result<Url> url = parse_url(GetParam().url);
  ASSERT_FALSE(url.has_value());
  EXPECT_EQ(url.error().code, Code::invalid_argument);
  EXPECT_NE(url.error().detail.find(GetParam().says), std::string::npos) << url.error().detail;
}

INSTANTIATE_TEST_SUITE_P(
    Urls, ClientUrlError,
    testing::Values(
        BadUrl{"Empty", "", "scheme"}, BadUrl{"Scheme", "http://h:1/j", "scheme"},
        BadUrl{"NoHost", "c10dd://:1/j", "host is empty"},
        BadUrl{"NoJob", "c10dd://h:1", "job is missing"},
        BadUrl{"EmptyJob", "c10dd://h:1/", "job is missing"},
        BadUrl{"DeepJob", "c10dd://h:1/a/b", "job's name"},
        BadUrl{"Query", "c10dd://h:1/a?b=c", "job's name"},
        BadUrl{"ControlInJob", std::string("c10dd://h:1/a\nb"), "job name"},
        BadUrl{"BlankAtTheEndOfJob", "c10dd://h:1/a%20", "ends with a blank"},
        BadUrl{"BlankAtTheBeginOfJob", "c10dd://h:1/ a", "begins with a blank"},
        BadUrl{"EncodedControlInJob", "c10dd://h:1/a%0Ab", "U+000A at byte 1"},
        BadUrl{"EncodedZeroInJob", "c10dd://h:1/a%00", "U+0000 at byte 1"},
        BadUrl{"EncodedDirectionInJob", "c10dd://h:1/%E2%80%AE", "U+202E at byte 0"},
        BadUrl{"EncodedIllFormedUtf8", "c10dd://h:1/%C3", "no UTF-8 at byte 0"},
        BadUrl{"EncodedSlashInJob", "c10dd://h:1/a%2Fb", "job's name has a slash"},
        BadUrl{"EncodedQueryInJob", "c10dd://h:1/a%3Fb", "job's name has a slash"},
        BadUrl{"EncodedHashInJob", "c10dd://h:1/a%23b", "job's name has a slash"},
        BadUrl{"PercentAlone", "c10dd://h:1/100%", "write %25 for a '%'"},
        BadUrl{"PercentOneDigit", "c10dd://h:1/a%2", "write %25 for a '%'"},
        BadUrl{"PercentNoDigits", "c10dd://h:1/a%zz", "write %25 for a '%'"},
        BadUrl{"PercentSign", "c10dd://h:1/a%-1", "write %25 for a '%'"},
        BadUrl{"LongJob", "c10dd://h:1/" + std::string(256, 'j'),
               "has 256 bytes; use 1 to 255 bytes"},
        BadUrl{"PortWord", "c10dd://h:http/j", "port \"http\""},
        BadUrl{"PortZero", "c10dd://h:0/j", "port \"0\""},
        BadUrl{"PortBig", "c10dd://h:65536/j", "port \"65536\""},
        BadUrl{"PortEmpty", "c10dd://h:/j", "port \"\""},
        BadUrl{"BareIpv6", "c10dd://::1/j", "brackets"},
        BadUrl{"OpenBracket", "c10dd://[::1/j", "closing bracket"},
        BadUrl{"AfterBracket", "c10dd://[::1]x/j", "followed by something other than a port"},
        BadUrl{"EmptyAddress", "c10dd://a:1,,b:2/j", "an address is empty"},
        BadUrl{"FirstEmpty", "c10dd://,b:2/j", "an address is empty"},
        BadUrl{"LastEmpty", "c10dd://a:1,/j", "an address is empty"},
        BadUrl{"SameAddress", "c10dd://a:1,b:2,a:1/j", "it names the address a:1 twice"},
        BadUrl{"SameByDefaultPort", "c10dd://a,a:29500/j", "it names the address a:29500 twice"},
        BadUrl{"SecondPort", "c10dd://a:1,b:x/j", "port \"x\""},
        BadUrl{"SpaceAfterComma", "c10dd://a:1, b:2/j", "character that is not valid in a host"},
        BadUrl{"User", "c10dd://me@h/j", "character that is not valid in a host"},
        BadUrl{"BracketInHost", "c10dd://[[]/j", "character that is not valid in a host"},
        BadUrl{"LateBracket", "c10dd://h]:1/j", "character that is not valid in a host"},
        BadUrl{"ControlInHost", std::string("c10dd://h\0i:1/j", 15),
               "character that is not valid in a host"}),
    [](const auto& bad) { return bad.param.name; });

class ClientEnvironment : public testing::Test {
 protected:
  Result<Launch> read() {
    return read_environment([this](const char* name) -> const char* {
      const auto it = variables_.find(name);
      return it == variables_.end() ? nullptr : it->second.c_str();
    });
  }
  void expect_error(const char* says) {
    const Result<Launch> launch = read();
    ASSERT_FALSE(launch.has_value());
    EXPECT_EQ(launch.error().code, Code::invalid_argument);
    EXPECT_NE(launch.error().detail.find(says), std::string::npos) << launch.error().detail;
  }

  std::map<std::string, std::string> variables_;
};

TEST_F(ClientEnvironment, GivesUrlRunAndRank) {
  variables_ = {
      {"C10DD_URL", "c10dd://h:1/j"}, {"C10DD_RUN", "r1"}, {"RANK", "3"}, {"WORLD_SIZE", "4"}};
  const Result<Launch> launch = read();
  ASSERT_TRUE(launch.has_value()) << launch.error().detail;
  EXPECT_EQ(launch->url, "c10dd://h:1/j");
  EXPECT_EQ(launch->options.run, "r1");
  EXPECT_EQ(launch->options.rank, 3);
  EXPECT_EQ(launch->options.world_size, 4);
}

TEST_F(ClientEnvironment, EncodesTheJobThatHasAVariableOfItsOwn) {
  variables_ = {{"C10DD_ADDR", "h:5"}, {"C10DD_JOB", "100% a%20b"}};
  const Result<Launch> launch = read();
  ASSERT_TRUE(launch.has_value()) << launch.error().detail;
  EXPECT_EQ(launch->url, "c10dd://h:5/100%25 a%2520b");
  EXPECT_EQ(parse_url(launch->url)->job, "100% a%20b");
}

TEST_F(ClientEnvironment, TakesAddressAndJobInsteadOfAUrl) {
  variables_ = {{"C10DD_ADDR", "h:5"}, {"C10DD_JOB", "j"}};
  const Result<Launch> launch = read();
  ASSERT_TRUE(launch.has_value()) << launch.error().detail;
  EXPECT_EQ(launch->url, "c10dd://h:5/j");
  EXPECT_EQ(launch->options.rank, -1);
  EXPECT_EQ(launch->options.world_size, -1);
}

TEST_F(ClientEnvironment, NamesSeveralDaemonsInBothForms) {
  variables_ = {{"C10DD_URL", "c10dd://a:1,b:2/j"}};
  ASSERT_TRUE(read().has_value());
  EXPECT_EQ(read()->url, "c10dd://a:1,b:2/j");
  variables_ = {{"C10DD_ADDR", "a:1,b:2"}, {"C10DD_JOB", "j"}};
  ASSERT_TRUE(read().has_value());
  EXPECT_EQ(read()->url, "c10dd://a:1,b:2/j");
  variables_["C10DD_ADDR"] = "a:1,a:1";
  expect_error("C10DD_ADDR and C10DD_JOB: invalid URL");
}

TEST_F(ClientEnvironment, PrefersOurVariablesToTheLaunchers) {
  variables_ = {{"C10DD_URL", "c10dd://h:1/j"},
                {"RANK", "1"},
                {"C10DD_RANK", "2"},
                {"WORLD_SIZE", "2"},
                {"C10DD_WORLD_SIZE", "8"}};
  const Result<Launch> launch = read();
  ASSERT_TRUE(launch.has_value()) << launch.error().detail;
  EXPECT_EQ(launch->options.rank, 2);
  EXPECT_EQ(launch->options.world_size, 8);
}

TEST_F(ClientEnvironment, ErrorsNameTheVariable) {
  expect_error("neither C10DD_URL nor C10DD_ADDR is set");
  variables_ = {{"C10DD_ADDR", "h:5"}};
  expect_error("C10DD_JOB is not set");
  variables_ = {{"C10DD_URL", "h:5/j"}};
  expect_error("C10DD_URL: invalid URL");
  variables_ = {{"C10DD_URL", "c10dd://h/j"}, {"RANK", "first"}};
  expect_error("RANK is \"first\"");
  variables_ = {{"C10DD_URL", "c10dd://h/j"}, {"C10DD_RANK", "-1"}};
  expect_error("C10DD_RANK is \"-1\"");
  variables_ = {{"C10DD_URL", "c10dd://h/j"}, {"WORLD_SIZE", "0"}};
  expect_error("WORLD_SIZE is \"0\"");
  variables_ = {{"C10DD_URL", "c10dd://h/j"}, {"RANK", "4"}, {"WORLD_SIZE", "4"}};
  expect_error("RANK is 4, but WORLD_SIZE is 4");
  variables_ = {{"C10DD_URL", "c10dd://h/j"}, {"C10DD_RUN", std::string(300, 'r')}};
  expect_error("C10DD_RUN has 300 bytes");
}

}  // namespace
}  // namespace c10dd::client
