// SPDX-License-Identifier: Apache-2.0
// JSON form of requests and replies, for the messages of tests. Pure. A byte string is a JSON
// string if it is valid UTF-8, else {"base64": "..."}. Durations are seconds. The name of a label
// that is not valid UTF-8 is made printable.
#pragma once

#include <string>

#include "protocol/ops.h"

namespace c10dd::json {

/// Returns a request as a JSON object of its fields.
std::string encode_request(const Request& request);
/// Returns a reply as a JSON object; a failure is {"error": {"code": ..., "detail": ...}}.
std::string encode_reply_body(const Reply& reply);

}  // namespace c10dd::json
