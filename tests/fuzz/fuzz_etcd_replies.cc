// SPDX-License-Identifier: Apache-2.0
// Two bytes of settings, then any bytes as what an etcd server sends to the SDK's store: as a
// stream of HTTP, whole and in pieces, or as the body of a response. Each reply is read as one to
// each request: it has what was asked for, and no text has control characters.
#include "client/stores/etcd/requests.h"
#include "client/stores/etcd/response.h"
#include "protocol/limits.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/shown.h"
#include "tests/fuzz/target.h"

namespace {

namespace etcd = c10dd::client::etcd;
using c10dd::Bytes;

void use_etcd_reply(const boost::json::object& reply) {
  const etcd::Range keys = etcd::with_prefix("k");
  const auto entries = etcd::read_range(reply, keys);
  c10dd::fuzz::expect_shown(entries);
  if (entries) {
    for (const etcd::Entry& entry : entries->list) C10DD_ASSERT(entry.key.starts_with("k"));
  }
  c10dd::fuzz::expect_shown(etcd::read_removed(reply));
  c10dd::fuzz::expect_shown(etcd::read_put_keys(reply));
  const etcd::Expected expected{2, {keys}, true, 1, {{"k"}}};
  const auto done = etcd::read_transaction(reply, expected);
  c10dd::fuzz::expect_shown(done);
  C10DD_ASSERT(!done || (done->ranges.size() == 1 && done->revision > 0));
  c10dd::fuzz::expect_shown(c10dd::Result<void>(etcd::read_refusal(reply).why));
}

struct ReadStream {
  bool done = false;
  std::string body;
};

/// Reads a stream in pieces of so many bytes: as one response, or as the messages of a watch.
ReadStream read_stream(std::string_view stream, std::size_t step, bool watches) {
  etcd::ResponseReader reader;
  ReadStream read;
  Bytes in;
  while (!stream.empty() && !reader.is_done()) {
    in += stream.substr(0, step);
    stream.remove_prefix(std::min(step, stream.size()));
    const auto some = reader.read(in);
    c10dd::fuzz::expect_shown(some);
    if (!some) return read;
    C10DD_ASSERT(in.size() <= c10dd::limits::kHttpHeaderBytes || reader.is_done());
    while (watches) {
      const auto message = reader.take_message();
      c10dd::fuzz::expect_shown(message);
      if (!message || !*message) break;
      use_etcd_reply(**message);
    }
  }
  read.done = reader.is_done() && !watches;
  if (!read.done) return read;
  const auto body = reader.body();
  c10dd::fuzz::expect_shown(body);
  if (body) use_etcd_reply(*body);
  static_cast<void>(reader.is_ok());
  static_cast<void>(reader.keeps_alive());
  read.body = body ? "an object of " + std::to_string(body->size()) : body.error().detail;
  return read;
}

}  // namespace

C10DD_FUZZ(etcd_replies) {
  c10dd::fuzz::Input input(data, size);
  const std::size_t step = 1 + input.byte();
  const std::size_t kind = input.below(4);
  Bytes stream(input.rest());
  if (kind >= 2) {
    stream =
        "HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(stream.size()) + "\r\n\r\n" + stream;
  }
  const ReadStream whole = read_stream(stream, stream.size() + 1, kind % 2 == 1);
  const ReadStream pieces = read_stream(stream, step, kind % 2 == 1);
  C10DD_ASSERT(!whole.done || !pieces.done || whole.body == pieces.body);
  return 0;
}
