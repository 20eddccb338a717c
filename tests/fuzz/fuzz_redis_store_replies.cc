// SPDX-License-Identifier: Apache-2.0
// Any bytes as the replies of a Redis server to the SDK's store: pieces give the same replies as
// the whole, what is read of a reply has the size that was asked for, and no text has control
// characters.
#include "client/stores/redis/replies.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/shown.h"
#include "tests/fuzz/target.h"

namespace {

namespace redis = c10dd::client::redis;

/// Reads a reply as one to each command.
void use_store_reply(const redis::Reply& reply) {
  C10DD_ASSERT(c10dd::fuzz::is_shown(reply.form()));
  const std::vector<std::string> two{"k", "l"};
  for (const std::vector<std::string>& keys : {std::vector<std::string>{"k"}, two}) {
    const auto values = redis::read_values(reply, keys);
    c10dd::fuzz::expect_shown(values);
    C10DD_ASSERT(!values || values->values.size() == keys.size());
    const auto presence = redis::read_presence(reply, keys);
    c10dd::fuzz::expect_shown(presence);
    C10DD_ASSERT(!presence || presence->missing.size() <= keys.size());
  }
  c10dd::fuzz::expect_shown(redis::read_login(reply));
  c10dd::fuzz::expect_shown(redis::read_digest(reply));
  c10dd::fuzz::expect_shown(redis::read_number("LLEN", reply));
  c10dd::fuzz::expect_shown(redis::read_set(reply));
  c10dd::fuzz::expect_shown(redis::read_sum(reply, "k", 1));
  c10dd::fuzz::expect_shown(redis::read_compared(reply, "v", "w"));
  c10dd::fuzz::expect_shown(redis::read_item(reply));
  c10dd::fuzz::expect_shown(redis::read_channel("SUBSCRIBE", reply));
  const auto names = redis::read_names(reply, "k");
  c10dd::fuzz::expect_shown(names);
  for (const std::string& name : names ? *names : two) C10DD_ASSERT(!names || name[0] == 'k');
  if (reply.is_error())
    c10dd::fuzz::expect_shown(c10dd::Result<void>(redis::refused(reply.text())));
}

/// The forms of all replies, and the failure that ended them.
std::string replies_in(std::string_view stream, std::size_t step, bool uses) {
  redis::ReplyCutter cutter;
  std::string all;
  while (true) {
    const auto reply = cutter.next();
    c10dd::fuzz::expect_shown(reply);
    if (!reply) return all + reply.error().detail;
    if (*reply) {
      if (uses) use_store_reply(**reply);
      all += (*reply)->form() + "; ";
    } else if (stream.empty()) {
      return all + (cutter.has_rest() ? "incomplete" : "");
    } else {
      cutter.feed(stream.substr(0, step));
      stream.remove_prefix(std::min(step, stream.size()));
    }
  }
}

}  // namespace

C10DD_FUZZ(redis_store_replies) {
  c10dd::fuzz::Input input(data, size);
  const std::size_t step = 1 + input.byte();
  const std::string_view stream = input.rest();
  const std::string whole = replies_in(stream, stream.size() + 1, true);
  C10DD_ASSERT(replies_in(stream, step, false) == whole);
  return 0;
}
