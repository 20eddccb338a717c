// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/security.h"

#include <filesystem>
#include <fstream>

#include "tests/bench/network.h"
#include "tests/integration/installed_program.h"

namespace c10dd::bench {
namespace {

constexpr const char* kClient = "spiffe://bench/client";

std::string ctl() {
  return std::filesystem::read_symlink("/proc/self/exe").replace_filename("c10ddctl");
}

Credentials by_ca(const test::ClusterFiles& files) {
  Credentials credentials;
  credentials.ca_file = files.ca();
  return credentials;
}

}  // namespace

Security::Security(Shown shown)
    : files_(ctl(), directory_.path()), to_redis_(client::Tls::of(by_ca(files_))) {
  Credentials credentials;
  if (shown == Shown::token) {
    credentials.token_file = files_.token();
  } else {
    make_client_certificate();
    credentials = by_ca(files_);
    credentials.cert_file = directory_.path() + "/client.crt";
    credentials.key_file = directory_.path() + "/client.key";
  }
  to_daemon_ = client::Tls::of(credentials);
}

/// c10ddctl makes none: those of clients come from a site's CA.
void Security::make_client_certificate() {
  const std::string openssl = test::installed_program("openssl");
  if (openssl.empty())
    throw Skipped("openssl, which makes certificates of clients, is not installed");
  const std::string folder = directory_.path();
  std::ofstream(folder + "/client.cnf")
      << "[req]\ndistinguished_name = name\nx509_extensions = client\n[name]\n[client]\n"
      << "extendedKeyUsage = clientAuth\nsubjectAltName = URI:" << kClient << "\n";
  test::run_program({openssl,
                     "req",
                     "-x509",
                     "-config",
                     folder + "/client.cnf",
                     "-CA",
                     files_.ca(),
                     "-CAkey",
                     files_.ca_key(),
                     "-newkey",
                     "ec",
                     "-pkeyopt",
                     "ec_paramgen_curve:P-256",
                     "-noenc",
                     "-subj",
                     "/CN=client",
                     "-days",
                     "1",
                     "-keyout",
                     folder + "/client.key",
                     "-out",
                     folder + "/client.crt"},
                    folder + "/openssl.log");
  grants_ = folder + "/grants.toml";
  std::ofstream(grants_) << "[[grant]]\nwho = \"cert:" << kClient
                         << "\"\nrole = \"trainer\"\njobs = [\"*\"]\n";
}

std::vector<std::string> Security::daemon_options() const {
  std::vector<std::string> options = {"--tls", files_.daemon()};
  if (!grants_.empty()) options.insert(options.end(), {"--grants", grants_});
  return options;
}

std::vector<std::string> Security::redis_options(std::uint16_t port) const {
  const std::string folder = files_.daemon();
  return {"--port",
          "0",
          "--tls-port",
          std::to_string(port),
          "--tls-auth-clients",
          "no",
          "--tls-cert-file",
          folder + "/tls.crt",
          "--tls-key-file",
          folder + "/tls.key",
          "--tls-ca-cert-file",
          folder + "/ca.crt"};
}

}  // namespace c10dd::bench
