// SPDX-License-Identifier: Apache-2.0
// The list of protocols: one entry per name, and the recognition of first bytes.
#include "daemon/net/protocols.h"

#include <gtest/gtest.h>

#include <string>

#include "daemon/http/http_session.h"
#include "daemon/net/native_session.h"
#include "protocol/native_wire.h"
#include "tests/unit/daemon/fake_operations.h"
#include "tests/unit/daemon/small_daemon.h"
#include "tests/unit/daemon/tcpstore_entry.h"

namespace c10dd::daemon {
namespace {

class ProtocolsTest : public testing::Test {
 protected:
  Protocols::List list() {
    return {native_protocol(daemon_.context), http_protocol(daemon_.context, operations_),
            tcpstore_entry(daemon_.context)};
  }

  /// Returns the name of the protocol of these bytes, "?" if more are needed, "" if it is unknown.
  std::string found(std::string_view head) const {
    const Protocols::Found found = protocols_.recognise(head);
    EXPECT_EQ(found.match == Match::yes, found.protocol != nullptr);
    if (found.protocol) return std::string(name_of(found.protocol->protocol));
    return found.match == Match::maybe ? "?" : "";
  }

  SmallDaemon daemon_;
  FakeOperations operations_;
  Protocols protocols_{list()};
};

TEST_F(ProtocolsTest, HasAnEntryForEachName) {
  const Protocols::List entries = list();
  ASSERT_EQ(entries.size(), std::size(kProtocols));
  for (std::size_t i = 0; i < entries.size(); ++i) {
    EXPECT_EQ(entries[i].protocol, kProtocols[i].protocol);
    EXPECT_EQ(name_of(entries[i].protocol), kProtocols[i].name);
  }
  EXPECT_EQ(name_of(Protocol::unknown), "unknown");
}

TEST_F(ProtocolsTest, ListThatIsNotWholeIsABug) {
  Protocols::List swapped = list();
  std::swap(swapped[0], swapped[1]);
  EXPECT_DEATH(Protocols{swapped}, "entry.protocol");
  Protocols::List short_of_one = list();
  short_of_one.back() = {};
  EXPECT_DEATH(Protocols{short_of_one}, "entry.protocol");
}

TEST_F(ProtocolsTest, FirstByteSaysWhoseItIs) {
  for (int byte = 0; byte < 256; ++byte) {
    const char c = static_cast<char>(byte);
    std::string expected;
    if (byte <= 0x0B) expected = "tcpstore";
    if (byte >= 'A' && byte <= 'Z') expected = "http";
    if (byte == 0xC1) expected = "?";
    EXPECT_EQ(found(std::string_view(&c, 1)), expected) << byte;
  }
  EXPECT_EQ(found(""), "?");
}

TEST_F(ProtocolsTest, NativeIsKnownByAllOfItsMagicBytes) {
  for (std::size_t n = 1; n < native::kMagic.size(); ++n) {
    EXPECT_EQ(found(native::kMagic.substr(0, n)), "?") << n;
    EXPECT_EQ(found(std::string(native::kMagic.substr(0, n)) + "x"), "") << n;
  }
  EXPECT_EQ(found(native::kMagic), "native");
  EXPECT_EQ(found(std::string(native::kMagic) + "GET /"), "native");
}

TEST_F(ProtocolsTest, StrangersAreToldWhereOnlyNativeIsSpoken) {
  EXPECT_EQ(protocols_.for_strangers(ProtocolSet::all()), nullptr);
  EXPECT_EQ(protocols_.for_strangers({Protocol::http}), nullptr);
  EXPECT_EQ(protocols_.for_strangers({}), nullptr);
  const WireProtocol* native = protocols_.for_strangers({Protocol::native});
  ASSERT_NE(native, nullptr);
  EXPECT_EQ(native->protocol, Protocol::native);
}

TEST_F(ProtocolsTest, EachRefusesInItsWords) {
  const Protocols::List entries = list();
  const std::string frame = entries[0].refusal(failure(Code::quota_exceeded, "full"));
  const auto cut = native::cut_reply(frame, 1024);
  ASSERT_TRUE(cut && cut->has_value());
  EXPECT_EQ((*cut)->size, frame.size());
  EXPECT_EQ((*cut)->header.op, Hello::op.code);
  EXPECT_EQ((*cut)->header.kind, native::ReplyHeader::Kind::failure);
  Reply reply = ReplyBody(Done{});
  ASSERT_TRUE(native::decode_reply(Hello::op.code, (*cut)->header.kind, (*cut)->body, reply));
  EXPECT_EQ(reply.error().code, Code::quota_exceeded);
  EXPECT_EQ(reply.error().detail, "full");

  const std::string full = entries[1].refusal(failure(Code::quota_exceeded, "full"));
  EXPECT_TRUE(full.starts_with("HTTP/1.1 503 Service Unavailable\r\n")) << full;
  EXPECT_NE(full.find("\r\nConnection: close\r\n"), std::string::npos);
  EXPECT_TRUE(full.ends_with(R"({"error":{"code":"quota_exceeded","detail":"full"}})"
                             "\n"))
      << full;
  EXPECT_TRUE(entries[1].refusal(failure(Code::malformed, "x")).starts_with("HTTP/1.1 400 "));
  EXPECT_EQ(entries[2].refusal(failure(Code::malformed, "x")), "");
}

TEST_F(ProtocolsTest, OneLoopServesAHelloWithoutReadingItFirst) {
  const WireProtocol native = native_protocol(daemon_.context);
  EXPECT_FALSE(native.wants_more(native::kMagic));
  EXPECT_FALSE(http_protocol(daemon_.context, operations_).wants_more);
}

TEST_F(ProtocolsTest, SeveralLoopsWantTheFirstFrame) {
  SmallDaemon two(2);
  const WireProtocol native = native_protocol(two.context);
  std::string head(native::kMagic);
  Hello hello;
  hello.job = "digits";
  native::encode_request(head, {}, hello);
  for (std::size_t n = native::kMagic.size(); n < head.size(); ++n) {
    EXPECT_TRUE(native.wants_more(std::string_view(head).substr(0, n))) << n;
  }
  EXPECT_FALSE(native.wants_more(head));
  std::string large(native::kMagic);
  large += std::string(native::RequestHeader::kSize, '\xFF');
  EXPECT_FALSE(native.wants_more(large)) << "what is too large is for the session to refuse";
}

}  // namespace
}  // namespace c10dd::daemon
