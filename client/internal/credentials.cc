// SPDX-License-Identifier: Apache-2.0
#include "client/internal/credentials.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <memory>

#include "client/internal/socket.h"
#include "protocol/format.h"
#include "protocol/limits.h"
#include "protocol/utf8.h"
#include "protocol/wording.h"

namespace c10dd::client {
namespace {

constexpr std::size_t kFileBytes = 256 * 1024;

/// A file of credentials, and what it is for failures.
struct Source {
  const char* variable;
  const std::string& path;
};

Failure unreadable(const Source& from, std::string_view why) {
  return failure(Code::invalid_argument, "{}: cannot read {}: {}", from.variable,
                 printable(from.path, limits::kNameShown), why);
}

/// Reads a file; an empty path is an empty text.
Result<std::string> text_of(const Source& from) {
  if (from.path.empty()) return std::string();
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(from.path.c_str(), "rbe"),
                                                             std::fclose);
  if (!file) return unreadable(from, error_text(errno));
  std::string text(kFileBytes + 1, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file.get()));
  if (std::ferror(file.get()) != 0) return unreadable(from, error_text(errno));
  if (text.size() > kFileBytes) {
    return unreadable(from, format("it has more than {} bytes", kFileBytes));
  }
  if (text.empty()) return unreadable(from, "it is empty");
  return text;
}

/// Fails if every user of the machine may read a key.
Result<void> check_mode(const Source& key) {
  struct stat is {};
  if (key.path.empty() || ::stat(key.path.c_str(), &is) != 0) return {};
  if ((is.st_mode & (S_IROTH | S_IWOTH)) == 0) return {};
  const std::string path = printable(key.path, limits::kNameShown);
  return failure(Code::invalid_argument, "{}: every user may read the key {}; {}", key.variable,
                 path, close_to_others(path));
}

std::string trimmed(const std::string& text) {
  constexpr std::string_view kSpaces = " \t\r\n";
  const std::size_t begin = text.find_first_not_of(kSpaces);
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpaces) - begin + 1);
}

}  // namespace

Credentials credentials_in(const Environment& environment) {
  const auto value = [&](const char* name) {
    const char* const text = environment(name);
    return std::string(text != nullptr ? text : "");
  };
  return {.token = value("C10DD_TOKEN"),
          .token_file = value("C10DD_TOKEN_FILE"),
          .ca_file = value("C10DD_CA_FILE"),
          .cert_file = value("C10DD_CERT_FILE"),
          .key_file = value("C10DD_KEY_FILE")};
}

bool is_given(const Credentials& credentials) {
  return !credentials.token.empty() || !credentials.token_file.empty() ||
         !credentials.ca_file.empty() || !credentials.cert_file.empty() ||
         !credentials.key_file.empty();
}

Result<CredentialTexts> read_credentials(const Credentials& from) {
  if (!from.token.empty() && !from.token_file.empty()) {
    return failure(Code::invalid_argument,
                   "C10DD_TOKEN and C10DD_TOKEN_FILE are both given; give one of them");
  }
  if (from.cert_file.empty() != from.key_file.empty()) {
    return failure(Code::invalid_argument,
                   "C10DD_CERT_FILE and C10DD_KEY_FILE belong together; give both or neither");
  }
  const Source key{"C10DD_KEY_FILE", from.key_file};
  if (Result<void> good = check_mode(key); !good) return good.error();
  CredentialTexts texts{.token = from.token};
  const std::pair<Source, std::string*> files[] = {
      {{"C10DD_TOKEN_FILE", from.token_file}, &texts.token},
      {{"C10DD_CA_FILE", from.ca_file}, &texts.ca},
      {{"C10DD_CERT_FILE", from.cert_file}, &texts.cert},
      {key, &texts.key}};
  for (const auto& [source, into] : files) {
    if (source.path.empty()) continue;
    Result<std::string> text = text_of(source);
    if (!text) return text.error();
    *into = std::move(*text);
  }
  texts.token = trimmed(texts.token);
  if (texts.token.size() > limits::kCredentialBytes) {
    return failure(Code::invalid_argument, "{}: the token has {} bytes, limit {}",
                   from.token.empty() ? "C10DD_TOKEN_FILE" : "C10DD_TOKEN", texts.token.size(),
                   limits::kCredentialBytes);
  }
  if (!from.token_file.empty() && texts.token.empty()) {
    return failure(Code::invalid_argument, "C10DD_TOKEN_FILE: {} has no token",
                   printable(from.token_file, limits::kNameShown));
  }
  return texts;
}

}  // namespace c10dd::client
