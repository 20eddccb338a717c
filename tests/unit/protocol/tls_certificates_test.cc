// SPDX-License-Identifier: Apache-2.0
// Certificates and keys: what is made can be read, and what is damaged is refused with a sentence.
#include "protocol/tls/certificates.h"

#include "tests/unit/protocol/tls_parties.h"

namespace c10dd::tls {
namespace {

TEST(TlsCertificates, ADaemonsCertificateSaysWhatWasAskedFor) {
  const Ca ca;
  const Identity daemon = ca.daemon({"head", "*.cluster", "10.0.0.1", "fd00::1"});
  const auto read = certificates_of(daemon.chain[0].pem() + daemon.chain[1].pem(), "tls.crt");
  ASSERT_TRUE(read);
  ASSERT_EQ(read->size(), 2U);
  const Certificate& own = read->front();
  EXPECT_EQ(own.hosts(),
            (std::vector<std::string>{"head", "*.cluster", "10.0.0.1", "fd00:0:0:0:0:0:0:1"}));
  EXPECT_TRUE(own.uris().empty());
  for (const char* host : {"head", "10.0.0.1", "fd00::1", "fd00:0::1"}) {
    EXPECT_TRUE(own.is_for(host)) << host;
  }
  // A * needs two labels behind it.
  for (const char* host :
       {"a.cluster", "head2", "cluster", "a.b.cluster", "10.0.0.2", "fd00::2", ""}) {
    EXPECT_FALSE(own.is_for(host)) << host;
  }
  EXPECT_FALSE(own.is_ca());
  EXPECT_TRUE(read->back().is_ca());
  EXPECT_LE(own.begins(), kNow) << "the clock of a client may be behind";
  EXPECT_GE(own.begins(), kNow - 2h);
  EXPECT_LE(std::chrono::abs(own.ends() - (kNow + 1'000h)), 1s);
  EXPECT_EQ(own.key().hash(), daemon.key.hash());
  EXPECT_NE(own.serial(), ca.daemon().chain[0].serial());
  EXPECT_EQ(own.key().hash().size(), 32U);
  const auto again = identity_of(own.pem(), "a", daemon.key.private_pem(), "b");
  ASSERT_TRUE(again) << again.error().detail;
}

TEST(TlsCertificates, WhatIsNoCertificateIsRefused) {
  const Ca ca;
  const Identity daemon = ca.daemon();
  const std::string pem = daemon.chain[0].pem();
  const auto text = [](const auto& result) { return result ? "good" : result.error().detail; };
  EXPECT_EQ(text(certificates_of("", "tls.crt")), "tls.crt has no certificate in PEM");
  EXPECT_EQ(text(certificates_of("hello", "tls.crt")), "tls.crt has no certificate in PEM");
  EXPECT_EQ(text(certificates_of(pem + pem.substr(0, pem.size() / 2), "tls.crt")),
            "certificate 2 of tls.crt is damaged");
  std::string flipped = pem;
  flipped[pem.size() / 2] = flipped[pem.size() / 2] == 'A' ? 'B' : 'A';
  EXPECT_FALSE(certificates_of(flipped.substr(0, 60) + "!" + flipped.substr(61), "tls.crt"));
  EXPECT_EQ(text(identity_of(pem, "tls.crt", ca.key.private_pem(), "tls.key")),
            "the key in tls.key does not belong to the first certificate in tls.crt");
  EXPECT_EQ(text(identity_of(pem, "tls.crt", pem, "tls.key")),
            "tls.key has no private key in PEM that can be read without a pass phrase");
}

TEST(TlsCertificates, AHostMustBeANameOrAnAddress) {
  const Ca ca;
  const Key key = Key::make();
  for (const std::string bad : {"", "a b", "a,DNS:b", "a\n", "h\xc3\xa4user", "a/b"}) {
    const auto made =
        make_server({"d", {"good", bad}, kNow, kNow + 1h}, key, ca.certificate, ca.key);
    ASSERT_FALSE(made) << bad;
    EXPECT_EQ(made.error().detail.find("host \""), 0U) << made.error().detail;
  }
  EXPECT_FALSE(make_server({"d", {}, kNow, kNow + 1h}, key, ca.certificate, ca.key));
}

TEST(TlsKeys, OnlyTheKeyThatSignedAndTheSameTextFit) {
  const Key key = Key::make();
  const std::string signature = key.sign("text");
  EXPECT_EQ(signature.size(), 64U);
  EXPECT_TRUE(key.verifies(Signature::es256, "text", signature));
  EXPECT_FALSE(key.verifies(Signature::rs256, "text", signature));
  EXPECT_FALSE(key.verifies(Signature::es256, "texT", signature));
  EXPECT_FALSE(key.verifies(Signature::es256, "text", signature.substr(1)));
  EXPECT_FALSE(key.verifies(Signature::es256, "text", ""));
  EXPECT_FALSE(key.verifies(Signature::es256, "text", std::string(64, '\0')));
  EXPECT_FALSE(Key::make().verifies(Signature::es256, "text", signature));
  const auto same = Key::from_private_pem(key.private_pem(), "key");
  ASSERT_TRUE(same);
  EXPECT_TRUE(same->is_same(key));
  EXPECT_TRUE(same->verifies(Signature::es256, "text", signature));
}

}  // namespace
}  // namespace c10dd::tls
