// SPDX-License-Identifier: Apache-2.0
// Which replies leave open whether the call was applied, and how error texts show calls.
#include "tests/history/op.h"

#include "protocol/utf8.h"
#include "tests/json/json_wire.h"

namespace c10dd::history {
namespace {

constexpr std::size_t kShown = 200;

}  // namespace

bool Op::open_ended() const {
  if (!reply) return true;
  switch (code()) {
    case Code::timed_out:
    case Code::outcome_unknown:
    case Code::session_expired:
    case Code::session_replaced:
    case Code::closed:
    case Code::unavailable:
    case Code::not_owner:
    case Code::session_superseded:
    case Code::aborted:
      return true;
    default:
      return false;
  }
}

std::string describe(const Reply& reply) {
  return printable(json::encode_reply_body(reply), kShown);
}

std::string describe(const Op& op) {
  std::string text = "client " + std::to_string(op.client) + " #" + std::to_string(op.sequence) +
                     " " + std::string(info_of(op.request).name) + " " +
                     printable(json::encode_request(op.request), kShown) + " [" +
                     std::to_string(op.invoked) + ", " +
                     (op.answered == 0 ? "never" : std::to_string(op.answered)) + "]";
  return op.reply ? text + " -> " + describe(*op.reply) : text;
}

}  // namespace c10dd::history
