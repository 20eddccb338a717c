// SPDX-License-Identifier: Apache-2.0
// What a client of PyTorch's TCPStore says: a get is a wait and then a get, as in PyTorch's
// clients, and counts as two requests. A set has no reply, so a check of no key follows it.
#pragma once

#include "protocol/tcpstore_wire.h"
#include "tests/bench/conversation.h"

namespace c10dd::bench {

enum class TcpstoreOperation { get, set, add, multi_get };

/// As Workload. multi_get asks for 100 keys; the dialect l0 does not have it.
struct TcpstoreWorkload {
  TcpstoreOperation operation = TcpstoreOperation::get;
  std::size_t key_bytes = 0;
  std::size_t value_bytes = 0;
  tcpstore::Dialect dialect = tcpstore::Dialect::v;
};

std::unique_ptr<Conversation> tcpstore_conversation(const TcpstoreWorkload& workload,
                                                    unsigned connection);

/// The bytes of one request and of its reply; of get and multi_get, which are two requests, those
/// of the second.
struct PlainBytes {
  Bytes request;
  Bytes reply;
};
PlainBytes tcpstore_bytes(const TcpstoreWorkload& workload);

/// Sends these requests, and takes as many bytes as the reply has for one: for the echo.
std::unique_ptr<Conversation> bytes_conversation(const PlainBytes& bytes);

}  // namespace c10dd::bench
