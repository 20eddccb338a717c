// SPDX-License-Identifier: Apache-2.0
// A certificate of a client, with the URI spiffe://site/ops. It ends in the year 2036.
#pragma once

#include "protocol/tls/certificates.h"

namespace c10dd::daemon {

inline tls::Certificate client_certificate() {
  constexpr const char* kPem =
      "-----BEGIN CERTIFICATE-----\n"
      "MIIBpjCCAUygAwIBAgIUfnHUsu/f8qJib9uOeygvqawoRZgwCgYIKoZIzj0EAwIw\n"
      "DjEMMAoGA1UEAwwDb3BzMB4XDTI2MTEyODE3NTgyOFoXDTM2MTEyNTE3NTgyOFow\n"
      "DjEMMAoGA1UEAwwDb3BzMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEsS1Mr4/8\n"
      "cS8uQtfeU8AD60eFlHGDlozLZBN7eUCOqnMKpVDXU61Wr1S6tWr6kCRvCiv/3Qzb\n"
      "K7xvmSOgrDBETqOBhzCBhDAdBgNVHQ4EFgQURUxopJpQ87JZyRIodj/jk7HBlXIw\n"
      "HwYDVR0jBBgwFoAURUxopJpQ87JZyRIodj/jk7HBlXIwDwYDVR0TAQH/BAUwAwEB\n"
      "/zAcBgNVHREEFTAThhFzcGlmZmU6Ly9zaXRlL29wczATBgNVHSUEDDAKBggrBgEF\n"
      "BQcDAjAKBggqhkjOPQQDAgNIADBFAiEAmqBDXNQzZEewZ6gU9KFjDBxYGvPC8mxW\n"
      "B/oQG91lAfYCIErlrgouUHfzK+UQmAH4YFZK+4vWyYwzse+C4xzhS5SG\n"
      "-----END CERTIFICATE-----\n";
  return tls::certificates_of(kPem, "client.crt")->front();
}

}  // namespace c10dd::daemon
