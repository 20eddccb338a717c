// SPDX-License-Identifier: Apache-2.0
// A client of PyTorch's TCPStore on a connection without a socket.
#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "daemon/net/tcpstore_session.h"
#include "tests/unit/daemon/memory_stream.h"
#include "tests/unit/daemon/small_daemon.h"
#include "tests/unit/daemon/tcpstore_entry.h"
#include "tests/unit/protocol/tcpstore_traces.h"

namespace c10dd::daemon {

class TcpStorePeer {
 public:
  TcpStorePeer(SmallDaemon& daemon, std::shared_ptr<TcpStoreListener> listener)
      : daemon_(daemon), listener_(std::move(listener)) {}

  /// Connects with the first bytes, which the daemon has read to recognise the protocol.
  void connect(std::string_view first, bool local = true) {
    auto stream = std::make_shared<MemoryStream>(daemon_.loop, wire, local);
    stream->put_head(std::string(first));
    tcpstore_protocol(listener_).serve(std::move(stream));
  }
  /// Connects as PyTorch since version 2.5 does.
  void connect_v(bool local = true) {
    connect(traces::bytes_of("00 CEF7853C 0D 16640000"), local);
    expect("16640000");
  }

  void say(std::string_view bytes) { wire->say(bytes); }
  void send(const char* text) { wire->say(traces::bytes_of(text)); }

  static Bytes message(tcpstore::Query query, const Bytes& key = {}, const Bytes& value = {},
                       std::int64_t number = 0) {
    tcpstore::Message message;
    message.query = query;
    message.key = key;
    message.value = value;
    message.number = number;
    Bytes bytes;
    tcpstore::encode_message(bytes, tcpstore::Dialect::v, message);
    return bytes;
  }
  static Bytes list(tcpstore::Query query, std::vector<std::string_view> keys,
                    std::vector<std::string_view> values = {}) {
    tcpstore::Message message;
    message.query = query;
    message.keys = std::move(keys);
    message.values = std::move(values);
    Bytes bytes;
    tcpstore::encode_message(bytes, tcpstore::Dialect::v, message);
    return bytes;
  }

  /// Turns the daemon until so many bytes have come, and takes them.
  Bytes next(std::size_t size) {
    EXPECT_TRUE(daemon_.turn_until([&] {
      unread_ += wire->take();
      return unread_.size() >= size || wire->session_ended();
    }));
    Bytes bytes = unread_.substr(0, size);
    unread_.erase(0, size);
    return bytes;
  }
  void expect(const char* text) {
    const Bytes expected = traces::bytes_of(text);
    EXPECT_EQ(next(expected.size()), expected);
  }
  /// Expects that nothing comes.
  void expect_silence() {
    daemon_.turn_a_while();
    unread_ += wire->take();
    EXPECT_EQ(unread_, "");
    EXPECT_FALSE(wire->session_ended());
  }
  /// Expects that the daemon ends the connection, and sends no more.
  void expect_end() {
    EXPECT_TRUE(daemon_.turn_until([&] { return wire->session_ended(); }));
    unread_ += wire->take();
    EXPECT_EQ(unread_, "");
    wire->hang_up();
    EXPECT_TRUE(daemon_.turn_until([&] { return wire->closed(); }));
  }
  void leave() {
    wire->hang_up();
    EXPECT_TRUE(daemon_.turn_until([&] { return wire->closed(); }));
  }

  const std::shared_ptr<MemoryWire> wire = std::make_shared<MemoryWire>();

 private:
  SmallDaemon& daemon_;
  std::shared_ptr<TcpStoreListener> listener_;
  Bytes unread_;
};

}  // namespace c10dd::daemon
