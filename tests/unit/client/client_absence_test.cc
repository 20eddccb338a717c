// SPDX-License-Identifier: Apache-2.0
// What the client reports while it finds no daemon, when, and which other server it has found.
#include <array>

#include "client/core/announcements.h"
#include "client/core/foreign.h"
#include "tests/unit/client/client_world.h"

namespace c10dd::client {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(Announcements, PeopleHearAfterTwoSecondsAndEveryThirtyMore) {
  TimePoint now;
  Announcements announcements(now);
  std::vector<Duration> told;
  for (; now < TimePoint() + seconds(65); now += milliseconds(100)) {
    const auto said = announcements.next(false, now);
    if (!said) continue;
    EXPECT_FALSE(said->connected);
    EXPECT_TRUE(said->to_people);
    told.push_back(said->away);
  }
  EXPECT_EQ(told, (std::vector<Duration>{seconds(2), seconds(32), seconds(62)}));
}

TEST(Announcements, AShortLossIsToldToTheProgramOnly) {
  TimePoint now;
  Announcements announcements(now);
  const auto came = announcements.next(true, now += milliseconds(10));
  ASSERT_TRUE(came && came->connected && !came->to_people);
  EXPECT_FALSE(announcements.next(true, now += seconds(100)));
  EXPECT_FALSE(announcements.due());
  const auto lost = announcements.next(false, now);
  ASSERT_TRUE(lost && !lost->connected && !lost->to_people);
  EXPECT_EQ(announcements.due(), now + seconds(2));
  const auto back = announcements.next(true, now += milliseconds(1999));
  ASSERT_TRUE(back && back->connected && !back->to_people);
  EXPECT_EQ(back->away, milliseconds(1999));
}

TEST(Announcements, WhoHeardOfTheAbsenceHearsOfItsEnd) {
  TimePoint now;
  Announcements announcements(now);
  ASSERT_TRUE(announcements.next(false, now += seconds(2)));
  const auto came = announcements.next(true, now += seconds(1));
  ASSERT_TRUE(came);
  EXPECT_TRUE(came->to_people);
  EXPECT_EQ(came->away, seconds(3));
}

TEST(Foreign, ServersAreKnownByTheirFirstWords) {
  EXPECT_EQ(foreign_protocol("HTTP/1.0 404 Not Found\r\nDate: now"),
            "HTTP (\"HTTP/1.0 404 Not Found\")");
  EXPECT_EQ(foreign_protocol("-ERR wrong number of arguments\r\n"),
            "Redis (\"-ERR wrong number of arguments\")");
  EXPECT_EQ(foreign_protocol("-NOAUTH Authentication required.\r\n"),
            "Redis (\"-NOAUTH Authentication required.\")");
  EXPECT_EQ(foreign_protocol(std::string("\x15\x03\x01\x00\x02\x02\x46", 7)), "TLS");
  EXPECT_EQ(foreign_protocol("HTTP/1.0 400 Bad Request\r\n\r\nthis is an HTTPS server"),
            "TLS (\"HTTP/1.0 400 Bad Request\")");
  EXPECT_EQ(foreign_protocol(""), "");
  EXPECT_EQ(foreign_protocol("\x01\x02\x03"), "");
  EXPECT_EQ(foreign_protocol("HTTP/1.0 200 OK\r\n\r\nc10dd 0.1.0\n"), "") << "a daemon";
}

std::string absence_of(World& world) { return world.core.absence(world.now); }

TEST(ClientProbe, AnAnswerToTheHelloThatIsHttpIsNamed) {
  World w;
  w.dial();
  w.core.received("HTTP/1.1 400 Bad Request\r\nServer: nginx/1.22.1\r\n\r\n", w.now);
  EXPECT_NE(absence_of(w).find("the server there speaks HTTP (\"HTTP/1.1 400 Bad Request\")"),
            std::string::npos)
      << absence_of(w);
}

TEST(ClientProbe, AnAnswerThatSaysNothingOfItsProtocolIsAskedAgainAtOnce) {
  World w;
  w.dial();
  // An HTTP 0.9 reply to bytes that are not a request.
  w.core.received("<!DOCTYPE HTML>\n<html lang=\"en\">\n<head><title>Error response</title>\n",
                  w.now);
  EXPECT_EQ(w.core.probe(w.now), kTextProbe);
  w.core.probed("HTTP/1.0 200 OK\r\n\r\n");
  EXPECT_NE(absence_of(w).find("speaks HTTP (\"HTTP/1.0 200 OK\")"), std::string::npos)
      << absence_of(w);
}

TEST(ClientProbe, AShortAnswerCountsWhenItIsAll) {
  World w;
  w.dial();
  w.core.received(std::string("\x15\x03\x01\x00\x02\x02\x46", 7), w.now);
  w.core.closed("it closed the connection", w.now);
  EXPECT_NE(absence_of(w).find("speaks TLS;"), std::string::npos) << absence_of(w);
}

TEST(ClientProbe, ASilentServerIsAskedInTextAndThenInTls) {
  World w;
  EXPECT_TRUE(w.core.probe(w.now).empty());
  w.dial();
  EXPECT_TRUE(w.core.probe(w.now).empty()) << "it has just got the hello";
  ASSERT_TRUE(w.core.probe_at());
  w.now = *w.core.probe_at();
  EXPECT_LE(w.now - TimePoint(), seconds(2)) << "before people hear of the absence";
  EXPECT_EQ(w.core.probe(w.now), kTextProbe);
  w.core.probed("");
  EXPECT_EQ(w.core.probe(w.now), tls_probe());
  w.core.probed("");
  EXPECT_TRUE(w.core.probe(w.now).empty());
  EXPECT_FALSE(w.core.probe_at());
}

TEST(ClientProbe, AServerThatHangsUpIsAskedAtOnceAndNotAgainOnceItIsKnown) {
  World w;
  w.dial();
  w.core.closed("it closed the connection", w.now);
  EXPECT_EQ(w.core.probe(w.now), kTextProbe);
  w.core.probed("-ERR wrong number of arguments for 'get' command\r\n");
  EXPECT_TRUE(w.core.probe(w.now).empty());
  EXPECT_NE(absence_of(w).find("speaks Redis"), std::string::npos) << absence_of(w);
}

TEST(ClientProbe, ADaemonThatIsOnlySlowIsLeftAlone) {
  World w;
  w.dial();
  w.now += seconds(5);
  EXPECT_FALSE(w.core.probe(w.now).empty());
  w.core.probed("HTTP/1.0 200 OK\r\n\r\nc10dd 0.1.0\n");
  EXPECT_TRUE(w.core.probe(w.now).empty());
}

TEST(ClientProbe, WhoWasADaemonOnceIsNotAsked) {
  World w;
  w.open();
  w.core.closed("it closed the connection", w.now);
  EXPECT_TRUE(w.core.probe(w.now).empty());
  w.dial();
  w.now += seconds(5);
  EXPECT_TRUE(w.core.probe(w.now).empty());
}

TEST(ClientProbe, APortThatRefusesIsNewWhenItIsThereAgain) {
  World w;
  w.dial();
  w.core.closed("it closed the connection", w.now);
  w.core.probed("HTTP/1.0 200 OK\r\n");
  w.now = *w.core.dial_at();
  w.core.dialling();
  w.core.closed("connect: connection refused", w.now, true);
  EXPECT_NE(absence_of(w).find("connection refused"), std::string::npos) << absence_of(w);
}

}  // namespace
}  // namespace c10dd::client
