// SPDX-License-Identifier: Apache-2.0
#include "protocol/tls/certificates.h"

#include <openssl/bn.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <ctime>

#include "protocol/format.h"
#include "protocol/tls/openssl.h"
#include "protocol/utf8.h"

namespace c10dd::tls {
namespace {

using OwnedNumber = Owned<BIGNUM, BN_free>;
using OwnedNames = Owned<GENERAL_NAMES, GENERAL_NAMES_free>;
using OwnedExtension = Owned<X509_EXTENSION, X509_EXTENSION_free>;

constexpr std::size_t kNameBytes = 64;        // of a common name, RFC 5280
constexpr std::size_t kHostBytes = 253;       // of a DNS name
constexpr int kSerialBits = 126;              // random, so that no two are equal
constexpr std::chrono::seconds kSkew{3'600};  // a clock of another host may be behind

WallTime wall_time(const ASN1_TIME* time) {
  std::tm parts{};
  ASN1_TIME_to_tm(time, &parts);
  return WallTime(std::chrono::seconds(timegm(&parts)));
}

std::string_view text_of(const ASN1_STRING* string) {
  return {reinterpret_cast<const char*>(ASN1_STRING_get0_data(string)),
          static_cast<std::size_t>(ASN1_STRING_length(string))};
}

/// Returns an address as text; empty if it has another number of bytes than an address.
std::string address_of(std::string_view bytes) {
  const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(bytes[at]); };
  if (bytes.size() == 4) return format("{}.{}.{}.{}", byte(0), byte(1), byte(2), byte(3));
  if (bytes.size() != 16) return {};
  std::string text;
  for (std::size_t at = 0; at < 16; at += 2) {
    std::array<char, 8> part{};
    std::snprintf(part.data(), part.size(), "%s%x", at == 0 ? "" : ":",
                  byte(at) * 256U + byte(at + 1));
    text += part.data();
  }
  return text;
}

std::vector<std::string> names_of(const X509* certificate, int kind) {
  const OwnedNames names(static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)));
  std::vector<std::string> found;
  for (int at = 0; names && at < sk_GENERAL_NAME_num(names.get()); ++at) {
    const GENERAL_NAME* const name = sk_GENERAL_NAME_value(names.get(), at);
    if (name->type != kind) continue;
    const std::string_view text = text_of(name->d.ia5);  // all kinds that are asked for are strings
    found.push_back(kind == GEN_IPADD ? address_of(text) : std::string(text));
  }
  return found;
}

bool is_dns_name(std::string_view host) {
  const auto good = [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '.' || c == '_' || c == '*';
  };
  return !host.empty() && host.size() <= kHostBytes && std::ranges::all_of(host, good);
}

/// Returns the extension with the hosts, or the host that cannot be in it.
Result<OwnedExtension> alternative_names(const std::vector<std::string>& hosts) {
  const OwnedNames names(GENERAL_NAMES_new());
  for (const std::string& host : hosts) {
    GENERAL_NAME* const name = GENERAL_NAME_new();
    sk_GENERAL_NAME_push(names.get(), name);
    if (ASN1_OCTET_STRING* const address = a2i_IPADDRESS(host.c_str())) {
      GENERAL_NAME_set0_value(name, GEN_IPADD, address);
      continue;
    }
    if (!is_dns_name(host)) {
      return failure(
          Code::invalid_argument,
          "host \"{}\" is neither a DNS name nor an address; give for example head.cluster or "
          "10.0.0.1",
          printable(host, kHostBytes));
    }
    ASN1_IA5STRING* const text = ASN1_IA5STRING_new();
    ASN1_STRING_set(text, host.data(), static_cast<int>(host.size()));
    GENERAL_NAME_set0_value(name, GEN_DNS, text);
  }
  return OwnedExtension(X509V3_EXT_i2d(NID_subject_alt_name, 0, names.get()));
}

void add(X509* certificate, X509* issuer, int kind, const char* value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const OwnedExtension extension(X509V3_EXT_conf_nid(nullptr, &context, kind, value));
  C10DD_ASSERT(extension != nullptr);
  X509_add_ext(certificate, extension.get(), -1);
}

/// Returns a certificate without names, extensions and signature.
X509* begun(WallTime begins, WallTime ends, const Key& key) {
  X509* const made = X509_new();
  X509_set_version(made, X509_VERSION_3);
  const OwnedNumber serial(BN_new());
  BN_rand(serial.get(), kSerialBits, BN_RAND_TOP_ONE, BN_RAND_BOTTOM_ANY);
  BN_to_ASN1_INTEGER(serial.get(), X509_get_serialNumber(made));
  ASN1_TIME_set(X509_getm_notBefore(made), begins.time_since_epoch().count());
  ASN1_TIME_set(X509_getm_notAfter(made), ends.time_since_epoch().count());
  X509_set_pubkey(made, key.get());
  return made;
}

/// Does the same with names. `issuer` is null if it signs itself.
X509* begun(const NewCertificate& of, const Key& key, const Certificate* issuer) {
  X509* const made = begun(of.begins - kSkew, of.ends, key);
  X509_NAME* const name = X509_get_subject_name(made);
  const std::string text = printable(of.name, kNameBytes);
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8,
                             reinterpret_cast<const unsigned char*>(text.data()),
                             static_cast<int>(text.size()), -1, 0);
  X509_set_issuer_name(made, issuer == nullptr ? name : X509_get_subject_name(issuer->get()));
  return made;
}

/// Adds what makes a certificate one of a CA, which may have `below` further CAs below it.
void add_usages_of_ca(X509* certificate, int below) {
  const std::string constraints = format("critical,CA:TRUE,pathlen:{}", below);
  add(certificate, certificate, NID_basic_constraints, constraints.c_str());
  add(certificate, certificate, NID_key_usage, "critical,digitalSignature,keyCertSign,cRLSign");
}

/// Returns a certificate of the same CA with another signature to come: with its name, its key, and
/// the identifier by which the certificates below it name this key.
X509* copy_of_ca(const Certificate& ca, const Certificate& issuer, WallTime ends, int below) {
  X509* const made = begun(std::max(ca.begins(), issuer.begins()), ends, ca.key());
  X509_set_subject_name(made, X509_get_subject_name(ca.get()));
  X509_set_issuer_name(made, X509_get_subject_name(issuer.get()));
  add_usages_of_ca(made, below);
  const int at = X509_get_ext_by_NID(ca.get(), NID_subject_key_identifier, -1);
  if (at >= 0) X509_add_ext(made, X509_get_ext(ca.get(), at), -1);
  return made;
}

}  // namespace

Certificate::Certificate(x509_st* taken) : certificate_(taken, X509_free) {
  C10DD_ASSERT(taken != nullptr);
}

std::string Certificate::serial() const {
  const OwnedNumber number(ASN1_INTEGER_to_BN(X509_get0_serialNumber(get()), nullptr));
  char* const text = BN_bn2hex(number.get());
  std::string out = text;
  OPENSSL_free(text);
  return out;
}

std::string Certificate::name() const {
  const X509_NAME* const names = X509_get_subject_name(get());
  const int at = X509_NAME_get_index_by_NID(names, NID_commonName, -1);
  if (at < 0) return {};
  return std::string(text_of(X509_NAME_ENTRY_get_data(X509_NAME_get_entry(names, at))));
}

WallTime Certificate::begins() const { return wall_time(X509_get0_notBefore(get())); }
WallTime Certificate::ends() const { return wall_time(X509_get0_notAfter(get())); }
bool Certificate::may_serve() const {
  // A certificate without usages is good for all, and may be that of any workload.
  const std::uint32_t usages = X509_get_extended_key_usage(get());
  return usages != UINT32_MAX && (usages & XKU_SSL_SERVER) != 0 &&
         X509_check_purpose(get(), X509_PURPOSE_SSL_SERVER, 0) == 1;
}

bool Certificate::is_for(const std::string& host) const {
  const bool good = X509_check_ip_asc(get(), host.c_str(), 0) == 1 ||
                    X509_check_host(get(), host.data(), host.size(), 0, nullptr) == 1;
  ERR_clear_error();
  return good;
}

bool Certificate::is_ca() const { return X509_check_ca(get()) == 1; }

bool Certificate::is_root() const {
  const bool same_name =
      X509_NAME_cmp(X509_get_subject_name(get()), X509_get_issuer_name(get())) == 0;
  return same_name && is_signed_by(key());
}

bool Certificate::allows_ca_below() const { return is_ca() && X509_get_pathlen(get()) != 0; }

bool Certificate::is_signed_by(const Key& key) const {
  const bool good = X509_verify(get(), key.get()) == 1;
  ERR_clear_error();
  return good;
}

Key Certificate::key() const {
  EVP_PKEY* const key = X509_get_pubkey(get());
  return Key(key);
}

std::vector<std::string> Certificate::hosts() const {
  std::vector<std::string> all = names_of(get(), GEN_DNS);
  for (std::string& address : names_of(get(), GEN_IPADD)) all.push_back(std::move(address));
  return all;
}

std::vector<std::string> Certificate::uris() const { return names_of(get(), GEN_URI); }

std::string Certificate::pem() const {
  const OwnedBio out(BIO_new(BIO_s_mem()));
  PEM_write_bio_X509(out.get(), get());
  return tls::text_of(out);
}

Result<std::vector<Certificate>> certificates_of(std::string_view pem, std::string_view what) {
  std::vector<Certificate> found;
  const OwnedBio in = bio_of(pem);
  ERR_clear_error();
  while (X509* const one = PEM_read_bio_X509(in.get(), nullptr, nullptr, nullptr)) {
    EVP_PKEY* const key = X509_get0_pubkey(one);
    found.emplace_back(one);
    if (key == nullptr) {
      ERR_clear_error();
      return failure(Code::invalid_argument, "{} has a certificate whose key cannot be read", what);
    }
  }
  const bool at_end = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  ERR_clear_error();
  if (!at_end) {
    return failure(Code::invalid_argument, "certificate {} of {} is damaged", found.size() + 1,
                   what);
  }
  if (found.empty()) return failure(Code::invalid_argument, "{} has no certificate in PEM", what);
  return found;
}

Certificate make_ca(const NewCertificate& of, const Key& key) {
  X509* const made = begun(of, key, nullptr);
  add_usages_of_ca(made, 1);
  add(made, made, NID_subject_key_identifier, "hash");
  X509_sign(made, key.get(), EVP_sha256());
  return Certificate(made);
}

Certificate make_roomy(const Certificate& root, const Key& key) {
  X509* const made = copy_of_ca(root, root, root.ends(), 1);
  X509_sign(made, key.get(), EVP_sha256());
  return Certificate(made);
}

Certificate make_cross(const Certificate& of, const Certificate& by, const Key& by_key) {
  X509* const made = copy_of_ca(of, by, std::min(of.ends(), by.ends()), 0);
  add(made, by.get(), NID_authority_key_identifier, "keyid");
  X509_sign(made, by_key.get(), EVP_sha256());
  return Certificate(made);
}

Result<Certificate> make_server(const NewCertificate& of, const Key& key, const Certificate& ca,
                                const Key& ca_key) {
  if (of.hosts.empty()) {
    return failure(Code::invalid_argument, "a daemon's certificate needs a host; give --host HOST");
  }
  const Result<OwnedExtension> names = alternative_names(of.hosts);
  if (!names) return names.error();
  X509* const made = begun(of, key, &ca);
  add(made, ca.get(), NID_basic_constraints, "critical,CA:FALSE");
  add(made, ca.get(), NID_key_usage, "critical,digitalSignature");
  add(made, ca.get(), NID_ext_key_usage, "serverAuth,clientAuth");
  add(made, ca.get(), NID_subject_key_identifier, "hash");
  add(made, ca.get(), NID_authority_key_identifier, "keyid");
  X509_add_ext(made, names->get(), -1);
  X509_sign(made, ca_key.get(), EVP_sha256());
  return Certificate(made);
}

}  // namespace c10dd::tls
