// SPDX-License-Identifier: Apache-2.0
// JSON form of requests and replies, for the messages of tests. Pure. A byte string is a JSON
// string if it is valid UTF-8, else {"base64": "..."}. Durations are seconds, read to the
// microsecond. The name of a label that is not valid UTF-8 is made printable.
#pragma once

#include <string>
#include <string_view>

#include "protocol/ops.h"

namespace c10dd::json {

/// Returns a request as a JSON object of its fields.
std::string encode_request(const Request& request);
/// Returns a reply as a JSON object; a failure is {"error": {"code": ..., "detail": ...}}.
std::string encode_reply_body(const Reply& reply);

/// Decodes a request; `op` is the operation's name. Absent fields have their defaults. Fails with
/// unknown_op, or with invalid_argument, which names the field that is unknown or ill-typed.
Result<Request> decode_request(std::string_view op, std::string_view text);

}  // namespace c10dd::json
