// SPDX-License-Identifier: Apache-2.0
// Any bytes as the file of a file store, and once more with check sums that are right: a record
// that is accepted can be applied, and is what a writer writes.
#include <boost/crc.hpp>

#include "client/stores/file_format.h"
#include "protocol/fields.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/target.h"

namespace {

using c10dd::Bytes;
namespace client = c10dd::client;

std::uint32_t crc(std::string_view bytes) {
  boost::crc_32_type sum;
  sum.process_bytes(bytes.data(), bytes.size());
  return sum.checksum();
}

void read(std::string_view file) {
  if (const auto id = client::decode_header(file)) {
    const auto again = client::decode_header(client::encode_header(*id));
    C10DD_ASSERT(again && *again == *id);
  }
  client::LocalState state;
  for (std::uint64_t at = client::kFileHeaderBytes; at < file.size();) {
    const auto record = client::decode_record(file.substr(at), at);
    if (!record || !record->whole) break;
    C10DD_ASSERT(record->size >= client::kRecordHeaderBytes && record->size <= file.size() - at);
    for (const client::LocalChange& change : record->changes) state.apply(change);
    const Bytes written = client::encode_record(record->changes, at);
    const auto again = client::decode_record(written, at);
    C10DD_ASSERT(again && again->whole && again->changes.size() == record->changes.size());
    C10DD_ASSERT(client::encode_record(again->changes, at) == written);
    at += record->size;
  }
  for (const auto& [queue, items] : state.queues()) C10DD_ASSERT(!items.empty());
}

}  // namespace

C10DD_FUZZ(file_format) {
  const std::string_view bytes = c10dd::fuzz::Input(data, size).rest();
  read(bytes);
  // The same bytes as bodies of records, each after two bytes of length.
  c10dd::fuzz::Input in(data, size);
  Bytes file = client::encode_header(in.number());
  while (!in.empty()) {
    const std::string_view body = in.text();
    const std::uint64_t at = file.size();
    Bytes head;
    c10dd::wire::Writer out(head);
    out.put(static_cast<std::uint32_t>(body.size()));
    out.put(crc(body));
    Bytes placed = head;
    c10dd::wire::Writer(placed).put(at);
    out.put(crc(placed));
    file.append(head).append(body);
  }
  read(file);
  return 0;
}
