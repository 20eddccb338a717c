// SPDX-License-Identifier: Apache-2.0
// Any bytes as a stream of HTTP requests, as a whole and in pieces: both ways the same requests
// are read, every answer is framed as it says, and what is called JSON is JSON.
#include <boost/json/parse.hpp>

#include "daemon/http/http_wire.h"
#include "protocol/limits.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/target.h"
#include "tests/unit/daemon/ask_route.h"

namespace {

namespace daemon = c10dd::daemon;

daemon::HttpReply answer_to(const daemon::HttpRequest& request) {
  daemon::FakeOperations operations;
  operations.daemons_page.problem = "\xFF\"";
  operations.jobs.push_back({"\xFF\"", "run", 1, 2, {}});
  operations.owners_page.owners.push_back(
      {{"\xFE\"", "run", 2}, c10dd::store::Owner{1, 2}, {"\xFF"}, false});
  operations.endpoints.emplace_back();
  if (request.body.size() % 2 == 0) operations.done = c10dd::failure(c10dd::Code::internal, "x");
  const bool local = request.target.size() % 2 == 0;
  daemon::HttpReply reply = daemon::reply_of(operations, request, {.local = local});
  C10DD_ASSERT(reply.status >= 200 && reply.status < 600);
  if (reply.content_type == "application/json") {
    boost::system::error_code failed;
    boost::json::parse(reply.body, failed);
    C10DD_ASSERT(!failed);
  }
  return reply;
}

struct Conversation {
  std::string replies;
  std::optional<daemon::HttpReply> refusal;  ///< that ended it
  bool within = false;                       ///< it ends in a request
};

/// With a stream that arrives in pieces of so many bytes.
Conversation converse(std::string_view stream, std::size_t piece) {
  Conversation out;
  std::string unread;
  while (true) {
    daemon::HttpReader reader;
    while (!reader.request() && !reader.refusal()) {
      unread.erase(0, reader.put(unread));
      if (reader.request() || reader.refusal()) break;
      C10DD_ASSERT(unread.size() <= c10dd::limits::kHttpHeaderBytes);
      if (stream.empty()) {
        out.within = reader.begun();
        return out;
      }
      unread.append(stream.substr(0, piece));
      stream.remove_prefix(std::min(piece, stream.size()));
    }
    out.refusal = reader.refusal();
    if (out.refusal) return out;
    const daemon::HttpRequest& request = *reader.request();
    const daemon::HttpReply reply = answer_to(request);
    const std::string encoded = encode(reply, request.keep_alive, request.method == "HEAD");
    const std::string length = "\r\nContent-Length: " + std::to_string(reply.body.size()) + "\r\n";
    C10DD_ASSERT(encoded.find(length) < encoded.find("\r\n\r\n"));
    out.replies += encoded;
    if (!request.keep_alive) return out;
  }
}

}  // namespace

C10DD_FUZZ(http) {
  c10dd::fuzz::Input in(data, size);
  const std::size_t piece = 1 + in.byte();
  const std::string_view stream = in.rest();
  const Conversation at_once = converse(stream, stream.size() + 1);
  const Conversation in_pieces = converse(stream, piece);
  // What is wrong in a head may be told before the head is whole, and need not be: then it may also
  // turn out to be too long first.
  C10DD_ASSERT(at_once.replies == in_pieces.replies);
  const bool may_differ = in_pieces.refusal ? in_pieces.refusal->status == 431 : in_pieces.within;
  if (may_differ && (at_once.refusal || at_once.within)) return 0;
  C10DD_ASSERT(at_once.refusal.has_value() == in_pieces.refusal.has_value());
  if (!at_once.refusal) return 0;
  C10DD_ASSERT(encode(*at_once.refusal, false, false) == encode(*in_pieces.refusal, false, false));
  return 0;
}
