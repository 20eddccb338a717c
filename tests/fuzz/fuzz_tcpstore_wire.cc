// SPDX-License-Identifier: Apache-2.0
// Two bytes of settings, then any bytes as a connection of TCPStore: pieces give the same messages
// as the whole, a message encodes to the bytes that it had, and replies do no harm.
#include "protocol/tcpstore_wire.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/target.h"

namespace {

using c10dd::Bytes;
using c10dd::Result;
namespace tcpstore = c10dd::tcpstore;

/// The messages of `stream`, encoded again, and the failure that ended it.
Bytes messages_of(std::string_view stream, tcpstore::LegacyClients legacy, std::size_t step) {
  tcpstore::MessageCutter cutter(legacy);
  Bytes all;
  std::size_t begin = 0;
  for (std::size_t end = std::min(step, stream.size());;) {
    const std::string_view in = stream.substr(begin, end - begin);
    const Result<bool> whole = cutter.cut(in);
    if (!whole) return all + "; " + whole.error().detail;
    if (*whole) {
      const auto dialect =
          cutter.dialect() == tcpstore::Dialect::legacy ? tcpstore::Dialect::l0 : cutter.dialect();
      Bytes again;
      tcpstore::encode_message(again, dialect, cutter.decode(in));
      C10DD_ASSERT(again == in.substr(0, cutter.size()));
      C10DD_ASSERT(cutter.head(in).has_value());
      all += again;
      begin += again.size();
    } else {
      C10DD_ASSERT(cutter.needed() > in.size());
      if (end == stream.size()) return all + "; incomplete";
      end = std::min(end + step, stream.size());
    }
  }
}

}  // namespace

C10DD_FUZZ(tcpstore_wire) {
  c10dd::fuzz::Input input(data, size);
  const auto legacy = static_cast<tcpstore::LegacyClients>(input.below(3));
  const std::size_t step = 1 + input.below(16);
  const std::string_view stream = input.rest();
  const Bytes whole = messages_of(stream, legacy, stream.size() + 1);
  C10DD_ASSERT(messages_of(stream, legacy, step) == whole);
  for (std::size_t i = 0; i < tcpstore::kQueries; ++i) {
    const auto query = static_cast<tcpstore::Query>(i);
    if (!tcpstore::has_reply(query)) continue;
    const auto reply = tcpstore::cut_reply(stream, query, step);
    if (reply && *reply) C10DD_ASSERT((*reply)->size <= stream.size());
  }
  return 0;
}
