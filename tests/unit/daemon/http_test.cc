// SPDX-License-Identifier: Apache-2.0
// Parsing of requests, and formatting of replies.
#include "daemon/http/http_wire.h"

#include <gtest/gtest.h>

#include "protocol/limits.h"

namespace c10dd::daemon {
namespace {

const std::string kGetLivez = "GET /livez HTTP/1.1\r\nHost: a\r\n\r\n";

/// Parses all bytes at once. Returns the status of the refusal, 0 for a request, -1 if more bytes
/// are needed.
int outcome(const std::string& bytes) {
  HttpReader reader;
  reader.put(bytes);
  EXPECT_FALSE(reader.request() && reader.refusal());
  if (reader.refusal()) return reader.refusal()->status;
  return reader.request() ? 0 : -1;
}

TEST(HttpReader, ReadsARequestHoweverItsBytesArrive) {
  for (const std::string& bytes :
       {kGetLivez, std::string("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello"),
        std::string("POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
                    "3\r\nabc\r\n0\r\n\r\n")}) {
    for (std::size_t split = 0; split < bytes.size(); ++split) {
      HttpReader reader;
      std::string unread = bytes.substr(0, split);
      unread.erase(0, reader.put(unread));
      EXPECT_FALSE(reader.request() || reader.refusal()) << split;
      unread += bytes.substr(split);
      unread.erase(0, reader.put(unread));
      ASSERT_TRUE(reader.request()) << split << " of " << bytes;
      EXPECT_EQ(unread, "");
    }
  }
}

TEST(HttpReader, LeavesTheNextRequestAlone) {
  HttpReader reader;
  EXPECT_EQ(reader.put(kGetLivez + "HEAD / HTTP/1.1\r\n"), kGetLivez.size());
  EXPECT_EQ(reader.request()->target, "/livez");
  EXPECT_EQ(reader.put("HEAD"), 0u);
}

TEST(HttpReader, KnowsWhetherTheConnectionIsKept) {
  const auto kept = [](const std::string& bytes) {
    HttpReader reader;
    reader.put(bytes);
    return reader.request().value().keep_alive;
  };
  EXPECT_TRUE(kept(kGetLivez));
  EXPECT_FALSE(kept("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"));
  EXPECT_FALSE(kept("GET / HTTP/1.0\r\n\r\n"));
  EXPECT_TRUE(kept("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"));
}

TEST(HttpReader, RefusesWhatTwoReadersCouldFrameDifferently) {
  const auto post = [](const std::string& fields) {
    return outcome("POST / HTTP/1.1\r\nHost: a\r\n" + fields + "\r\n5\r\nhello\r\n0\r\n\r\n");
  };
  EXPECT_EQ(post("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"), 400);
  EXPECT_EQ(post("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n"), 400);
  EXPECT_EQ(post("Content-Length: 5\r\nContent-Length: 6\r\n"), 400);
  EXPECT_EQ(post("Content-Length: 5\r\nContent-Length: 5\r\n"), 400);
  EXPECT_EQ(post("Content-Length: 5, 5\r\n"), 400);
  EXPECT_EQ(post("Content-Length: +5\r\n"), 400);
  EXPECT_EQ(post("Content-Length: 99999999999999999999999\r\n"), 400);
  EXPECT_EQ(post("Transfer-Encoding: gzip, chunked\r\n"), 400);
  EXPECT_EQ(post("Transfer-Encoding: identity\r\n"), 400);
  EXPECT_EQ(post("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"), 400);
  EXPECT_EQ(post("Content-Length : 5\r\n"), 400);
  EXPECT_EQ(outcome("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), 400);
}

TEST(HttpReader, RefusesWhatIsNoRequest) {
  EXPECT_EQ(outcome("GET / HTTP/1.1\r\n\r\n"), 400) << "no host";
  EXPECT_EQ(outcome("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"), 400);
  EXPECT_EQ(outcome("HELLO\r\n\r\n"), 400);
  EXPECT_EQ(outcome("GET / HTTP/2.0\r\nHost: a\r\n\r\n"), 505);
  EXPECT_EQ(outcome("G\x01T / HTTP/1.1\r\nHost: a\r\n\r\n"), 400);
  EXPECT_EQ(outcome("GET / HTTP/1.1\r\nHo st: a\r\n\r\n"), 400);
  EXPECT_EQ(outcome("GET / HTTP/1.1\r\nHost: a\r\nX: \x01\r\n\r\n"), 400);
}

TEST(HttpReader, BoundsHeaderAndBody) {
  const std::string start = "GET / HTTP/1.1\r\nHost: a\r\nX: ";
  const std::size_t room = limits::kHttpHeaderBytes - start.size() - 4;
  EXPECT_EQ(outcome(start + std::string(room, 'x') + "\r\n\r\n"), 0);
  EXPECT_EQ(outcome(start + std::string(room + 1, 'x') + "\r\n\r\n"), 431);
  EXPECT_EQ(outcome(start + std::string(limits::kHttpHeaderBytes, 'x')), 431) << "without its end";
  EXPECT_EQ(outcome(std::string(limits::kHttpHeaderBytes + 1, 'A')), 431);
  const auto post = [](std::size_t length) {
    return "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: " + std::to_string(length) + "\r\n\r\n";
  };
  EXPECT_EQ(outcome(post(limits::kHttpBodyBytes) + std::string(limits::kHttpBodyBytes, 'x')), 0);
  EXPECT_EQ(outcome(post(limits::kHttpBodyBytes + 1)), 413) << "before the body is sent";
  std::string chunks = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (int i = 0; i < 17; ++i) chunks += "10000\r\n" + std::string(65536, 'x') + "\r\n";
  EXPECT_EQ(outcome(chunks), 413);
}

TEST(HttpReader, WhatFollowsTheLastChunkIsNoHeader) {
  const std::string bytes =
      "POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"
      "0\r\nHost: b\r\nConnection: close\r\nContent-Type: text/plain\r\n\r\n";
  for (std::size_t split = 0; split < bytes.size(); ++split) {
    HttpReader reader;
    std::string unread = bytes.substr(0, split);
    unread.erase(0, reader.put(unread));
    unread += bytes.substr(split);
    EXPECT_EQ(reader.put(unread), unread.size());
    ASSERT_TRUE(reader.request()) << split << ": " << reader.refusal()->body;
    EXPECT_EQ(reader.request()->body, "abc");
    EXPECT_EQ(reader.request()->content_type, "");
    EXPECT_TRUE(reader.request()->keep_alive);
  }
}

TEST(HttpReader, BoundsWhatStandsBeforeAndBehindChunks) {
  const std::string start = "POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
  const std::string fits(limits::kHttpHeaderBytes - 64, 'x');
  const std::string long_line(limits::kHttpHeaderBytes, 'x');
  const std::string chunk = "1;" + fits + "\r\na\r\n";
  EXPECT_EQ(outcome(start + chunk + chunk + "0\r\nY: " + fits + "\r\n\r\n"), 0);
  for (const std::string& tail : {"1;" + long_line, "0;" + long_line, "0\r\nY: " + long_line}) {
    EXPECT_EQ(outcome(start + tail), 431);
    EXPECT_EQ(outcome(start + tail + "\r\n\r\n"), 431) << "also when its end is there";
    HttpReader reader;
    std::string unread;
    for (const char byte : start + tail) {
      unread += byte;
      unread.erase(0, reader.put(unread));
    }
    ASSERT_TRUE(reader.refusal()) << "kept " << unread.size() << " bytes";
    EXPECT_EQ(reader.refusal()->status, 431);
  }
}

TEST(HttpReader, TellsOnceThatTheClientWaitsToSendItsBody) {
  HttpReader reader;
  reader.put("POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
  EXPECT_TRUE(reader.take_expects_continue());
  EXPECT_FALSE(reader.take_expects_continue());
  reader.put("ok");
  EXPECT_TRUE(reader.request());
}

TEST(HttpReader, SurvivesEveryByteInEveryPlace) {
  const std::string valid = "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nxy";
  for (std::size_t at = 0; at < valid.size(); ++at) {
    for (int byte = 0; byte < 256; ++byte) {
      std::string bytes = valid;
      bytes[at] = static_cast<char>(byte);
      const int status = outcome(bytes);
      EXPECT_TRUE(status <= 0 || status == 400 || status == 413 || status == 505)
          << status << " for byte " << byte << " at " << at;
    }
  }
}

std::string host_in(const std::string& head) {
  HttpReader reader;
  reader.put(head + "\r\n\r\n");
  if (!reader.request()) return "refused";
  return reader.request()->has_host ? reader.request()->host : "none";
}

TEST(HttpReader, TakesTheHostFromAnAbsoluteTargetElseFromTheField) {
  EXPECT_EQ(host_in("GET / HTTP/1.1\r\nHost: a:1"), "a:1");
  EXPECT_EQ(host_in("GET http://b:2/livez HTTP/1.1\r\nHost: a:1"), "b:2");
  EXPECT_EQ(host_in("GET http://b HTTP/1.0"), "b");
  EXPECT_EQ(host_in("GET / HTTP/1.1\r\nHost:"), "");
  EXPECT_EQ(host_in("GET / HTTP/1.0"), "none");
}

TEST(HttpWire, EncodesAnswers) {
  HttpReply reply = http_error(405, Code::unsupported, "POST is not allowed");
  reply.allow = "GET, HEAD";
  const std::string bytes = encode(reply, false, false);
  EXPECT_TRUE(
      bytes.starts_with("HTTP/1.1 405 Method Not Allowed\r\nContent-Type: application/json"
                        "\r\nContent-Length: " +
                        std::to_string(reply.body.size()) + "\r\nAllow: GET, HEAD\r\n"));
  EXPECT_TRUE(bytes.ends_with("\r\nConnection: close\r\n\r\n" + reply.body));
  const std::string head = encode({200, "text/plain", "ok\n"}, true, true);
  EXPECT_NE(head.find("\r\nContent-Length: 3\r\n"), std::string::npos);
  EXPECT_TRUE(head.ends_with("\r\nConnection: keep-alive\r\n\r\n"));
}

}  // namespace
}  // namespace c10dd::daemon
