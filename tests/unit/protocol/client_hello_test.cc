// SPDX-License-Identifier: Apache-2.0
// Whether a ClientHello has come as a whole, however its bytes are cut.
#include "protocol/client_hello.h"

#include <gtest/gtest.h>

#include <string>

namespace c10dd {
namespace {

std::string message(std::size_t length, char kind = 1) {
  std::string text{kind, static_cast<char>(length >> 16U), static_cast<char>(length >> 8U),
                   static_cast<char>(length)};
  return text + std::string(length, 'x');
}

std::string record(const std::string& bytes) {
  return std::string{'\x16', '\x03', '\x01', static_cast<char>(bytes.size() >> 8U),
                     static_cast<char>(bytes.size())} +
         bytes;
}

/// Cuts a message into records of so many bytes.
std::string records(const std::string& message, std::size_t each) {
  std::string all;
  for (std::size_t at = 0; at < message.size(); at += each) all += record(message.substr(at, each));
  return all;
}

/// Expects that the last byte of `bytes` makes it whole.
void expect_whole_at_the_end(const std::string& bytes) {
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    ASSERT_EQ(client_hello(bytes.substr(0, size)), ClientHello::part) << size;
  }
  EXPECT_EQ(client_hello(bytes), ClientHello::whole);
  EXPECT_EQ(client_hello(bytes + "more"), ClientHello::whole);
}

TEST(ClientHelloTest, IsWholeWithItsLastByte) {
  expect_whole_at_the_end(record(message(300)));
  expect_whole_at_the_end(record(message(0)));
  expect_whole_at_the_end(record(message(kClientHelloBytes - 4)));
}

TEST(ClientHelloTest, MayBeInSeveralRecords) {
  expect_whole_at_the_end(records(message(300), 100));
  expect_whole_at_the_end(records(message(4), 1));
  expect_whole_at_the_end(records(message(20), 3));
}

TEST(ClientHelloTest, ARecordIsReadAsAWhole) {
  expect_whole_at_the_end(record(message(300) + std::string(50, 'y')));
}

TEST(ClientHelloTest, WhatIsSomethingElseIsForTlsToJudge) {
  EXPECT_EQ(client_hello("GET / HTTP/1.1"), ClientHello::foreign);
  EXPECT_EQ(client_hello("\x16\x02"), ClientHello::foreign);
  EXPECT_EQ(client_hello(record("")), ClientHello::foreign);
  EXPECT_EQ(client_hello(record(message(300, 2))), ClientHello::foreign);
  EXPECT_EQ(client_hello(record(message(300)).substr(0, 50) + "\x15"), ClientHello::part);
  EXPECT_EQ(client_hello(record(message(300).substr(0, 50)) + "\x15"), ClientHello::foreign);
  EXPECT_EQ(client_hello(record(message(kClientHelloBytes - 3)).substr(0, 9)),
            ClientHello::foreign);
  EXPECT_EQ(client_hello(record(std::string(kClientHelloBytes + 1, 1)).substr(0, 5)),
            ClientHello::foreign);
  EXPECT_EQ(client_hello(records(message(9), 1)), ClientHello::foreign) << "too many records";
}

}  // namespace
}  // namespace c10dd
