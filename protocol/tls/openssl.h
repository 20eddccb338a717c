// SPDX-License-Identifier: Apache-2.0
// What the sources of this folder share: owners of OpenSSL's objects, and the text of its errors.
// Only they include it.
#pragma once

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/x509.h>

#include <memory>
#include <string>
#include <string_view>

#include "protocol/error.h"

namespace c10dd::tls {

template <auto free>
struct FreedBy {
  template <class T>
  void operator()(T* of) const {
    free(of);
  }
};
template <class T, auto free>
using Owned = std::unique_ptr<T, FreedBy<free>>;

using OwnedBio = Owned<BIO, BIO_free_all>;

/// Returns a BIO that reads `text`, which must stay valid.
inline OwnedBio bio_of(std::string_view text) {
  return OwnedBio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

/// Returns what was written to a memory BIO.
inline std::string text_of(const OwnedBio& bio) {
  char* begin = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &begin);
  return {begin, static_cast<std::size_t>(size)};
}

/// Returns the newest error of OpenSSL in this thread for people, and forgets all.
inline std::string last_error() {
  const unsigned long code = ERR_peek_last_error();
  ERR_clear_error();
  const char* const reason = code == 0 ? nullptr : ERR_reason_error_string(code);
  return reason == nullptr ? "no reason given" : reason;
}

}  // namespace c10dd::tls
