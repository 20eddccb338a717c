// SPDX-License-Identifier: Apache-2.0
// JSON form of requests and answers, for HTTP and for people. Pure. A byte string is a JSON string
// when it is valid UTF-8, else {"base64": "..."}; durations are seconds, read to the microsecond. A
// label's name that is not valid UTF-8 is made printable.
#pragma once

#include <string>
#include <string_view>

#include "protocol/ops.h"

namespace c10dd::json {

std::string encode_request(const Request& request);
/// A failure becomes {"error": {"code": ..., "detail": ...}}.
std::string encode_reply_body(const Reply& reply);

/// `op` is the operation's name. invalid_argument names the field that is unknown or ill-typed;
/// absent fields take their defaults.
Result<Request> decode_request(std::string_view op, std::string_view text);

}  // namespace c10dd::json
