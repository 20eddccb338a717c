// SPDX-License-Identifier: Apache-2.0
// A connection is served, refused with a reason, or closed when its first bytes are late, however
// they arrive.
#include "daemon/net/reception.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "daemon/http/http_session.h"
#include "daemon/net/native_session.h"
#include "daemon/net/newcomers.h"
#include "protocol/native_wire.h"
#include "tests/unit/daemon/fake_operations.h"
#include "tests/unit/daemon/memory_stream.h"
#include "tests/unit/daemon/samples.h"
#include "tests/unit/daemon/small_daemon.h"
#include "tests/unit/daemon/tcpstore_entry.h"

namespace c10dd::daemon {
namespace {

const std::string kMagic(native::kMagic);
/// A whole one, of a client that says nothing in it.
const std::string kClientHello("\x16\x03\x01\x00\x04\x01\x00\x00\x00", 9);

class ReceptionTest : public testing::Test {
 protected:
  /// Protocols whose sessions are only recorded, with the bytes that they get.
  Protocols protocols() {
    Protocols::List list{native_protocol(daemon_.context),
                         http_protocol(daemon_.context, operations_),
                         tcpstore_entry(daemon_.context)};
    for (WireProtocol& entry : list) {
      entry.serve = [this, name = name_of(entry.protocol)](std::shared_ptr<Stream> stream) {
        served_.push_back(std::string(name) + ": " + stream->head());
        held_.push_back(std::move(stream));
      };
    }
    list[0].wants_more = [this](std::string_view head) { return head.size() < native_wants_; };
    return Protocols(std::move(list));
  }

  Reception& reception() {
    if (!reception_) reception_.emplace(daemon_.context, protocols(), enabled_);
    return *reception_;
  }

  /// From now on, only these protocols are served.
  void serve_only(ProtocolSet enabled) {
    enabled_ = enabled;
    reception_.reset();
  }

  std::shared_ptr<MemoryWire> connect(Result<void> admitted = {}, bool local = true) {
    auto wire = std::make_shared<MemoryWire>();
    reception().receive(std::make_shared<MemoryStream>(daemon_.loop, wire, local),
                        std::move(admitted));
    daemon_.turn();
    return wire;
  }

  /// Sends these bytes, and returns the reply when the connection has ended.
  std::string answer_to(std::string_view bytes, Result<void> admitted = {}, bool local = true) {
    const auto wire = connect(std::move(admitted), local);
    wire->say(bytes);
    EXPECT_TRUE(daemon_.turn_until([&] { return wire->session_ended(); }));
    wire->hang_up();
    EXPECT_TRUE(daemon_.turn_until([&] { return wire->closed(); }));
    return wire->take();
  }

  static Failure failure_in(std::string_view frame) {
    const auto cut = native::cut_reply(frame, 4096);
    Reply reply = ReplyBody(Done{});
    EXPECT_TRUE(cut && cut->has_value());
    if (!cut || !cut->has_value()) return {};
    EXPECT_TRUE(native::decode_reply(Hello::op.code, (*cut)->header.kind, (*cut)->body, reply));
    return reply ? Failure{} : reply.error();
  }

  double refused(const std::string& protocol, const std::string& code) const {
    return daemon_.count(metric::kProtocolErrors,
                         "code=\"" + code + "\",protocol=\"" + protocol + '"');
  }

  SmallDaemon daemon_;
  FakeOperations operations_;
  std::size_t native_wants_ = 0;
  std::vector<std::string> served_;
  std::vector<std::shared_ptr<Stream>> held_;
  ProtocolSet enabled_ = ProtocolSet::all();
  std::optional<Reception> reception_;
};

TEST_F(ReceptionTest, ServesWithTheBytesThatWereRead) {
  connect()->say(kGet);
  connect()->say(kMagic + "abc");
  daemon_.turn_a_while();
  EXPECT_EQ(served_, (std::vector<std::string>{"http: " + kGet, "native: " + kMagic + "abc"}));
}

/// What the first byte of TLS begins is decrypted, and then recognised like any other connection.
TEST_F(ReceptionTest, LooksIntoTls) {
  std::vector<std::string> heads;
  std::shared_ptr<MemoryWire> inside;
  daemon_.context.decrypt = [&](const std::shared_ptr<Stream>& stream, const auto& then) {
    heads.push_back(stream->head());
    held_.push_back(stream);
    inside = std::make_shared<MemoryWire>();
    then(std::make_shared<MemoryStream>(daemon_.loop, inside));
  };
  const auto in_parts = connect();
  in_parts->say(kClientHello.substr(0, 6));
  daemon_.turn_a_while();
  EXPECT_TRUE(heads.empty()) << "there is nothing to answer yet";
  in_parts->say(kClientHello.substr(6));
  daemon_.turn_a_while();
  EXPECT_EQ(heads, std::vector<std::string>{kClientHello});
  ASSERT_TRUE(inside);
  inside->say(kGet);
  daemon_.turn_a_while();
  EXPECT_EQ(served_, std::vector<std::string>{"http: " + kGet});
  connect()->say(kClientHello);
  daemon_.turn_a_while();
  inside->say(kClientHello);
  daemon_.turn_a_while();
  EXPECT_EQ(heads.size(), 2U) << "TLS inside TLS is no protocol";
  EXPECT_EQ(served_.size(), 1U);
  connect(failure(Code::quota_exceeded, "too many"))->say(kClientHello);
  daemon_.turn_a_while();
  inside->say(kMagic);
  EXPECT_TRUE(daemon_.turn_until([&] { return inside->session_ended(); }));
  EXPECT_EQ(failure_in(inside->take()).detail, "too many") << "also inside TLS";
}

TEST_F(ReceptionTest, WhereTlsIsServedManyWhoSayNothingEndEarly) {
  daemon_.context.decrypt = [](const auto&, const auto&) { ADD_FAILURE(); };
  std::vector<std::shared_ptr<MemoryWire>> silent;
  const auto ended = [&] {
    return static_cast<std::size_t>(
        std::ranges::count_if(silent, [](const auto& wire) { return wire->closed(); }));
  };
  for (std::size_t n = 0; n < Newcomers::kShare + 5; ++n) {
    silent.push_back(connect());
    if (n % 2 == 0) silent.back()->say(kClientHello.substr(0, 6));
  }
  const auto began = std::chrono::steady_clock::now();
  EXPECT_TRUE(daemon_.turn_until([&] { return ended() == 5; }));
  EXPECT_GE(std::chrono::steady_clock::now() - began,
            Newcomers::kPatience - std::chrono::milliseconds(100));
  EXPECT_TRUE(silent.front()->closed()) << "the oldest first";
  EXPECT_EQ(ended(), 5U);
  EXPECT_TRUE(reception().make_room(asio::ip::make_address("127.0.0.1")));
  EXPECT_TRUE(reception().make_room());
  EXPECT_TRUE(daemon_.turn_until([&] { return ended() == 7; }));
}

TEST_F(ReceptionTest, PlainBytesGetASentenceIfOnlyTlsIsServed) {
  daemon_.context.decrypt = [](const auto&, const auto&) { ADD_FAILURE(); };
  daemon_.context.serves_plain = false;
  const std::string sentence =
      "this daemon asks for TLS and a token; set C10DD_TOKEN_FILE to a token of this cluster";
  EXPECT_EQ(failure_in(answer_to(kMagic)).code, Code::unauthenticated);
  EXPECT_EQ(failure_in(answer_to(kMagic)).detail, sentence);
  const std::string page = answer_to(kGet);
  EXPECT_TRUE(page.starts_with("HTTP/1.1 401 ")) << page;
  EXPECT_NE(page.find(sentence), std::string::npos) << page;
  EXPECT_NE(page.find("\r\nWWW-Authenticate: Bearer realm=\"c10dd\"\r\n"), page.npos) << page;
  EXPECT_TRUE(served_.empty());
  connect()->say(std::string("\x00\x01", 2));
  daemon_.turn_a_while();
  ASSERT_EQ(served_.size(), 1U) << "TCPStore has no TLS";
  EXPECT_TRUE(served_[0].starts_with("tcpstore: "));
  daemon_.context.serves_plain = true;
  connect()->say(kGet);
  daemon_.turn_a_while();
  EXPECT_EQ(served_.size(), 2U) << "while a cluster is moved over";
}

TEST_F(ReceptionTest, WaitsForAllMagicBytes) {
  const auto wire = connect();
  for (const char c : kMagic) {
    EXPECT_TRUE(served_.empty());
    wire->say(std::string_view(&c, 1));
    daemon_.turn_a_while();
  }
  EXPECT_EQ(served_, std::vector<std::string>{"native: " + kMagic});
}

TEST_F(ReceptionTest, WaitsForWhatAProtocolWants) {
  native_wants_ = kMagic.size() + 3;
  const auto wire = connect();
  wire->say(kMagic + "ab");
  daemon_.turn_a_while();
  EXPECT_TRUE(served_.empty());
  wire->say("c");
  daemon_.turn_a_while();
  EXPECT_EQ(served_, std::vector<std::string>{"native: " + kMagic + "abc"});
}

TEST_F(ReceptionTest, OneThatEndsBeforeItIsKnownHasSaidNothing) {
  const std::vector<std::string> starts = {"", kMagic.substr(0, 1), kMagic.substr(0, 4)};
  for (const std::string& start : starts) {
    const auto wire = connect();
    wire->say(start);
    daemon_.turn_a_while();
    wire->hang_up();
    EXPECT_TRUE(daemon_.turn_until([&] { return wire->closed(); }));
    EXPECT_EQ(wire->take(), "");
  }
  EXPECT_EQ(daemon_.closed("unknown", "nothing_said"), starts.size());
  EXPECT_TRUE(served_.empty());
}

TEST_F(ReceptionTest, SilentSocketIsClosedAtTheDeadline) {
  daemon_.context.hello_deadline = std::chrono::milliseconds(1);
  const auto wire = connect();
  EXPECT_TRUE(daemon_.turn_until([&] { return wire->closed(); }));
  EXPECT_EQ(daemon_.closed("unknown", "nothing_said"), 1);
  EXPECT_EQ(wire->take(), "");
}

TEST_F(ReceptionTest, OneThatIsLateWithItsFirstFrameIsCountedAsItsProtocols) {
  native_wants_ = 100;
  const auto gone = connect();
  gone->say(kMagic);
  gone->hang_up();
  EXPECT_TRUE(daemon_.turn_until([&] { return gone->closed(); }));
  EXPECT_EQ(daemon_.closed("native", "peer"), 1);
  daemon_.context.hello_deadline = std::chrono::milliseconds(1);
  const auto late = connect();
  late->say(kMagic);
  EXPECT_TRUE(daemon_.turn_until([&] { return late->closed(); }));
  EXPECT_EQ(daemon_.closed("native", "hello_deadline"), 1);
  EXPECT_EQ(daemon_.open("native"), 0);
  EXPECT_TRUE(served_.empty());
}

TEST_F(ReceptionTest, DeadlineEndsWithTheRecognition) {
  daemon_.context.hello_deadline = std::chrono::milliseconds(20);
  const auto wire = connect();
  wire->say(kGet);
  ASSERT_TRUE(daemon_.turn_until([&] { return !served_.empty(); }));
  asio::steady_timer later(daemon_.loop, std::chrono::milliseconds(30));
  bool passed = false;
  later.async_wait([&](const ErrorCode&) { passed = true; });
  EXPECT_TRUE(daemon_.turn_until([&] { return passed; }));
  EXPECT_FALSE(wire->closed());
}

TEST_F(ReceptionTest, StrangerIsClosedWithoutAWordWhereHttpIsSpoken) {
  EXPECT_EQ(answer_to("hello"), "");
  EXPECT_EQ(answer_to(kMagic.substr(0, 3) + "x"), "");
  serve_only({Protocol::http});
  EXPECT_EQ(answer_to(kMagic), "") << "it is known, but not spoken here";
  EXPECT_EQ(daemon_.closed("unknown", "refused"), 3);
  EXPECT_EQ(refused("unknown", "malformed"), 3);
  EXPECT_EQ(answer_to("\x16\x03"), std::string("\x15\x03\x01\0\x02\x02\x46", 7))
      << "TLS has an alert for it";
  EXPECT_EQ(refused("unknown", "unsupported"), 1);
}

TEST_F(ReceptionTest, StrangerIsToldInFramesWhereOnlyNativeIsSpoken) {
  serve_only({Protocol::native});
  const Failure plain = failure_in(answer_to(kGet));
  EXPECT_EQ(plain.code, Code::malformed);
  EXPECT_EQ(plain.detail,
            "no enabled protocol begins with byte 71; enabled: native; it looks like http: add "
            "http to --protocols");
  const Failure torch = failure_in(answer_to(std::string("\x00\x01", 2)));
  EXPECT_EQ(torch.detail,
            "no enabled protocol begins with byte 0; enabled: native; it looks like tcpstore: add "
            "tcpstore to --protocols");
  EXPECT_NE(failure_in(answer_to("\x0B")).detail.find("tcpstore"), std::string::npos);
  EXPECT_EQ(failure_in(answer_to("\x0C")).detail.find("tcpstore"), std::string::npos);
  EXPECT_EQ(refused("native", "malformed"), 4);
  EXPECT_TRUE(served_.empty());
}

TEST_F(ReceptionTest, OneThatWasNotAdmittedIsToldInItsWords) {
  const Result<void> full = failure(Code::quota_exceeded, "too many connections");
  native_wants_ = 100;  // a refused connection is not read further
  EXPECT_EQ(failure_in(answer_to(kMagic, full)).detail, "too many connections");
  const std::string http = answer_to("GET", full);
  EXPECT_TRUE(http.starts_with("HTTP/1.1 503 Service Unavailable\r\n")) << http;
  EXPECT_NE(http.find("too many connections"), std::string::npos);
  EXPECT_EQ(answer_to("hello", full), "");
  serve_only({Protocol::http});
  EXPECT_EQ(failure_in(answer_to(kMagic, full)).detail, "too many connections");
  EXPECT_EQ(refused("native", "quota_exceeded"), 2);
  EXPECT_EQ(refused("http", "quota_exceeded"), 1);
  EXPECT_EQ(refused("unknown", "malformed"), 1);
  EXPECT_TRUE(served_.empty());
}

TEST_F(ReceptionTest, PeerThatMayNotUseAProtocolIsClosed) {
  const std::string tcpstore("\x00\x01", 2);
  EXPECT_EQ(answer_to(tcpstore, {}, false), "");
  EXPECT_EQ(refused("tcpstore", "permission_denied"), 1);
  EXPECT_TRUE(served_.empty());
  connect({}, false)->say(kGet);
  connect()->say(tcpstore);
  daemon_.turn_a_while();
  EXPECT_EQ(served_, (std::vector<std::string>{"http: " + kGet, "tcpstore: " + tcpstore}));
}

TEST_F(ReceptionTest, OneThatCannotBeToldIsCounted) {
  reception().drop_unheard();
  EXPECT_EQ(daemon_.closed("unknown", "quota_exceeded"), 1);
}

}  // namespace
}  // namespace c10dd::daemon
