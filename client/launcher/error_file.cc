// SPDX-License-Identifier: Apache-2.0
#include "client/launcher/error_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/json.hpp>

#include "client/internal/socket.h"

namespace c10dd::run {
namespace {

namespace json = boost::json;

/// Returns the text of a file. Returns an empty text if the file cannot be read, is not a regular
/// file or has more than kErrorFileBytes.
std::string read_file(const std::string& path) {
  // O_NONBLOCK, because opening a FIFO must not block.
  const client::Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat what {};
  if (!file || fstat(file.get(), &what) != 0 || !S_ISREG(what.st_mode)) return {};
  std::string text(kErrorFileBytes + 1, '\0');
  const ssize_t got = read(file.get(), text.data(), text.size());
  text.resize(got < 0 || static_cast<std::size_t>(got) > kErrorFileBytes
                  ? 0
                  : static_cast<std::size_t>(got));
  return text;
}

const json::value* member(const json::value& of, const char* name) {
  const json::object* object = of.if_object();
  return object == nullptr ? nullptr : object->if_contains(name);
}

}  // namespace

std::string read_error_file(const std::string& path) {
  json::error_code error;
  const json::value all = json::parse(read_file(path), error);
  if (error) return {};
  const json::value* message = member(all, "message");
  if (message != nullptr && message->is_object()) message = member(*message, "message");
  const json::string* text = message == nullptr ? nullptr : message->if_string();
  return text == nullptr ? std::string() : std::string(*text);
}

}  // namespace c10dd::run
