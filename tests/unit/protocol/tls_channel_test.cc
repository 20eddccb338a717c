// SPDX-License-Identifier: Apache-2.0
// TLS without sockets: who is believed, what is said to those who are not, and what bytes become.
#include "protocol/tls/channel.h"

#include <malloc.h>

#include "tests/unit/protocol/tls_parties.h"

namespace c10dd::tls {
namespace {

constexpr std::string_view kOtherCa =
    "the daemon's certificate is not signed by a CA that this client trusts; use a token of this "
    "cluster, or set C10DD_CA_FILE to its CA";

TEST(TlsChannel, CarriesBytesBothWaysInPiecesOfAnySize) {
  const Ca ca;
  const Context server = server_of(ca.daemon());
  const Context client = client_of(CaHash{ca.key.hash()});
  for (const std::size_t piece : {std::size_t{1}, std::size_t{7}, std::size_t{100'000}}) {
    Wire wire(client, server);
    wire.piece = piece;
    ASSERT_EQ(wire.open(), "") << piece;
    EXPECT_EQ(wire.client.version(), "TLSv1.3");
    std::string large(piece == 1 ? 20'000 : 300'000, 'x');
    for (std::size_t i = 0; i < large.size(); ++i) large[i] = static_cast<char>(i * 7);
    EXPECT_EQ(wire.pass(wire.client, wire.server, large), large);
    EXPECT_EQ(wire.pass(wire.server, wire.client, "hello"), "hello");
    EXPECT_EQ(wire.client.held() + wire.server.held(), 2 * 2 * std::string().capacity())
        << "an idle connection holds no buffer";
    EXPECT_FALSE(wire.server.peer());
    EXPECT_EQ(wire.client.peer()->hosts(), std::vector<std::string>{"head"});
  }
}

TEST(TlsChannel, AnEndIsToldApartFromACut) {
  const Ca ca;
  const Context server = server_of(ca.daemon());
  const Context client = client_of(CaHash{ca.key.hash()});
  char byte = 0;
  Wire closed(client, server);
  ASSERT_EQ(closed.open(), "");
  closed.client.close();
  closed.move(closed.client, closed.server);
  EXPECT_EQ(*closed.server.read({&byte, 1}), 0U);
  EXPECT_TRUE(closed.server.has_ended());
  EXPECT_EQ(*closed.server.read({&byte, 1}), 0U);
  Wire cut(client, server);
  ASSERT_EQ(cut.open(), "");
  cut.server.receive_end();
  const auto read = cut.server.read({&byte, 1});
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, Code::unavailable);
  EXPECT_FALSE(cut.server.has_ended());
  Channel half(server);
  half.receive("\x16\x03\x01");
  EXPECT_FALSE(*half.shake_hands());
  half.receive_end();
  EXPECT_EQ(half.shake_hands().error().detail,
            "the client closed the connection during the TLS handshake");
}

TEST(TlsChannel, WhoClosesTwiceStillReadsAll) {
  const Ca ca;
  Wire wire(client_of(CaHash{ca.key.hash()}), server_of(ca.daemon()));
  ASSERT_EQ(wire.open(), "");
  ASSERT_TRUE(wire.server.write("last words"));
  wire.server.close();
  wire.move(wire.server, wire.client);
  for (int times = 0; times < 3; ++times) wire.client.close();
  std::string into(100, '\0');
  EXPECT_EQ(*wire.client.read(into), 10U);
  EXPECT_EQ(*wire.client.read(into), 0U);
  EXPECT_TRUE(wire.client.has_ended());
}

TEST(TlsChannel, AChangedByteIsNoticed) {
  const Ca ca;
  Wire wire(client_of(CaHash{ca.key.hash()}), server_of(ca.daemon()));
  ASSERT_EQ(wire.open(), "");
  ASSERT_TRUE(wire.client.write("secret"));
  std::string bytes(wire.client.outgoing());
  EXPECT_EQ(bytes.find("secret"), bytes.npos);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  wire.server.receive(bytes);
  std::string into(100, '\0');
  const auto read = wire.server.read(into);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, Code::permission_denied);
}

TEST(TlsChannel, ATokensHashNamesOneCaWhateverTheHost) {
  const Ca ca;
  const Ca other("ca");
  const Context server = server_of(ca.daemon({"elsewhere"}));
  EXPECT_EQ(Wire(client_of(CaHash{ca.key.hash()}), server, "any.host").open(), "");
  EXPECT_EQ(Wire(client_of(CaHash{ca.key.hash()}), server, "10.9.8.7").open(), "") << "any address";
  EXPECT_EQ(Wire(client_of(CaHash{other.key.hash()}), server).open(), kOtherCa);
  Identity forged = other.daemon();
  forged.chain.back() = ca.certificate;  // which has not signed it
  EXPECT_NE(Wire(client_of(CaHash{ca.key.hash()}), server_of(forged)).open(), "");
  Identity alone = ca.daemon();
  alone.chain.pop_back();
  EXPECT_EQ(Wire(client_of(CaHash{ca.key.hash()}), server_of(alone)).open(), kOtherCa)
      << "a daemon must show the CA, too";
}

TEST(TlsChannel, AHandshakeThatFailsKeepsNoMemory) {
  const Ca ca;
  const Ca other("ca");
  const Context expired = server_of(ca.daemon({"head"}, kNow - 100h, kNow - 1h));
  const Context foreign = server_of(other.daemon({"head"}));
  const std::vector<Context> clients{client_of(CaHash{ca.key.hash()}),
                                     client_of(KnownCas{{ca.certificate}})};
  const auto fail = [&](int times) {
    for (int i = 0; i < times; ++i) {
      for (const Context& client : clients) {
        EXPECT_NE(Wire(client, expired, "head").open(), "");
        EXPECT_NE(Wire(client, foreign, "head").open(), "");
      }
    }
  };
  fail(50);
  const std::size_t before = mallinfo2().uordblks;
  fail(100);
  const std::size_t after = mallinfo2().uordblks;
  EXPECT_LE(after, before + std::size_t{100 * 1024}) << "a certificate takes 3 KB";
}

TEST(TlsChannel, AKnownCaMustHaveSignedTheHost) {
  const Ca ca;
  const Context server = server_of(ca.daemon({"head", "10.0.0.1"}));
  const Context client = client_of(KnownCas{{ca.certificate}});
  EXPECT_EQ(Wire(client, server, "head").open(), "");
  EXPECT_EQ(Wire(client, server, "10.0.0.1").open(), "");
  EXPECT_EQ(
      Wire(client, server, "node1").open(),
      "the daemon's certificate is not for node1; use a name in it, or issue it for this one");
  EXPECT_NE(Wire(client, server, "10.0.0.2").open().find("is not for 10.0.0.2"), std::string::npos);
  EXPECT_EQ(Wire(client_of(KnownCas{{Ca().certificate}}), server).open(), kOtherCa);
  EXPECT_EQ(Wire(client_of(SystemCas{}), server).open(), kOtherCa);
}

TEST(TlsChannel, TheTimeOfACertificateCounts) {
  const Ca ca;
  const Context client = client_of(CaHash{ca.key.hash()});
  EXPECT_EQ(Wire(client, server_of(ca.daemon({"head"}, kNow - 100h, kNow - 1h))).open(),
            "the daemon's certificate has expired; renew it");
  EXPECT_EQ(Wire(client, server_of(ca.daemon({"head"}, kNow + 100h, kNow + 200h))).open(),
            "the daemon's certificate is not valid yet; compare the clocks of both hosts");
}

TEST(TlsChannel, AClientsCertificateIsTakenIfItsCaIsKnown) {
  const Ca ca;
  const Ca site("site");
  const Identity client = site.daemon({"node1"});
  const Context server = server_of(ca.daemon(), {site.certificate});
  Wire shown(client_of(CaHash{ca.key.hash()}, &client), server);
  ASSERT_EQ(shown.open(), "");
  ASSERT_TRUE(shown.server.peer());
  EXPECT_EQ(shown.server.peer()->serial(), client.chain[0].serial());
  Wire without(client_of(CaHash{ca.key.hash()}), server);
  EXPECT_EQ(without.open(), "");
  EXPECT_FALSE(without.server.peer());
  const Identity stranger = Ca().daemon();
  EXPECT_EQ(shown.server.peer_refused(), "");
  EXPECT_EQ(without.server.peer_refused(), "");
  Wire refused(client_of(CaHash{ca.key.hash()}, &stranger), server);
  EXPECT_EQ(refused.open(), "") << "a token may say who it is";
  EXPECT_FALSE(refused.server.peer());
  EXPECT_EQ(refused.server.peer_refused(),
            "the client's certificate is not signed by a CA that this daemon trusts; use a "
            "certificate of its CA");
  EXPECT_EQ(refused.pass(refused.client, refused.server, "hello"), "hello");
  Identity forged = site.daemon();
  forged.chain[0] = stranger.chain[0];
  EXPECT_FALSE(Context::client(CaHash{ca.key.hash()}, &forged)) << "its key is another one's";
  const Identity late = site.daemon({"node1"}, kNow - 100h, kNow - 1h);
  Wire expired(client_of(CaHash{ca.key.hash()}, &late), server);
  EXPECT_EQ(expired.open(), "");
  EXPECT_FALSE(expired.server.peer());
  EXPECT_EQ(expired.server.peer_refused(), "the client's certificate has expired; renew it");
}

TEST(TlsChannel, WhoSpeaksNoTlsIsToldApart) {
  const Ca ca;
  Channel server(server_of(ca.daemon()));
  server.receive("GET / HTTP/1.1\r\nHost: head\r\n\r\n");
  EXPECT_EQ(server.shake_hands().error().detail, "the client does not speak TLS");
  Channel client(client_of(CaHash{ca.key.hash()}), "head");
  ASSERT_FALSE(*client.shake_hands());
  client.receive("HTTP/1.1 400 Bad Request\r\n\r\n");
  EXPECT_EQ(client.shake_hands().error().detail,
            "the daemon does not speak TLS 1.2 or 1.3; start it with --tls, or use it without a "
            "token and a CA");
  for (const std::string& noise :
       {std::string("\x16\x03\x01\0\x04\x01\0\0\0", 9), std::string(64, '\xff')}) {
    Channel other(server_of(ca.daemon()));
    other.receive(noise);
    EXPECT_FALSE(other.shake_hands());
  }
}

}  // namespace
}  // namespace c10dd::tls
