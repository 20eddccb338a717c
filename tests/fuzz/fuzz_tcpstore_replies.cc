// SPDX-License-Identifier: Apache-2.0
// A list of operations, then any bytes as the replies to them of a server of PyTorch's TCPStore:
// pieces give the same replies as the whole, and a reply has the texts and the range of numbers of
// its operation.
#include "protocol/limits.h"
#include "protocol/tcpstore_wire.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/target.h"

namespace {

using c10dd::Bytes;
namespace tcpstore = c10dd::tcpstore;
using tcpstore::Query;

void check_reply(const tcpstore::ServerReply& reply, Query query, std::size_t keys) {
  C10DD_ASSERT(reply.number >= 0 || query == Query::add);
  if (query == Query::check || query == Query::wait) C10DD_ASSERT(reply.number <= 1);
  if (query == Query::multi_get) C10DD_ASSERT(reply.texts.size() == keys);
  if (query == Query::get || query == Query::compare_set) C10DD_ASSERT(reply.texts.size() == 1);
  if (query == Query::queue_pop) C10DD_ASSERT(reply.texts.size() == (reply.number > 0 ? 1 : 0));
  std::size_t bytes = 0;
  for (const std::string_view text : reply.texts) bytes += text.size();
  C10DD_ASSERT(bytes <= reply.size && reply.size <= c10dd::limits::kForeignReplyBytes);
}

/// The replies to these operations, and the failure that ended them.
Bytes replies_to_queries(std::string_view queries, std::string_view stream, std::size_t step) {
  Bytes all;
  Bytes in;
  for (const char one : queries) {
    const auto query = static_cast<Query>(static_cast<std::uint8_t>(one) % tcpstore::kQueries);
    const std::size_t keys = static_cast<std::uint8_t>(one) / tcpstore::kQueries;
    if (!tcpstore::has_reply(query)) continue;
    while (true) {
      const auto reply = tcpstore::cut_reply(in, query, keys);
      if (!reply) return all + reply.error().detail;
      if (*reply) {
        check_reply(**reply, query, keys);
        all += std::to_string((*reply)->number) + in.substr(0, (*reply)->size);
        in.erase(0, (*reply)->size);
        break;
      }
      if (stream.empty()) return all + "incomplete";
      in += stream.substr(0, step);
      stream.remove_prefix(std::min(step, stream.size()));
    }
  }
  return all;
}

}  // namespace

C10DD_FUZZ(tcpstore_replies) {
  c10dd::fuzz::Input input(data, size);
  const std::size_t step = 1 + input.below(16);
  const std::string_view queries = input.bytes(input.below(8));
  const std::string_view stream = input.rest();
  const Bytes whole = replies_to_queries(queries, stream, stream.size() + 1);
  C10DD_ASSERT(replies_to_queries(queries, stream, step) == whole);
  return 0;
}
