// SPDX-License-Identifier: Apache-2.0
// Each kind of reply to each command of the store on Redis, from a server that is not Redis: the
// call returns what the reply says if the command may have it, and otherwise fails with a typed
// error.
#include <map>
#include <set>

#include "client/store.h"
#include "client/stores/remote_store.h"
#include "tests/unit/client/foreign_fakes.h"

namespace c10dd {
namespace {

using namespace std::chrono_literals;
using test::error_of;
using test::FakeReply;
using test::FakeRequest;
using test::redis::good_redis_reply;
using test::redis::take_command;

const std::map<std::string, FakeReply>& kinds() {
  static const std::map<std::string, FakeReply> all{
      {"nil", {"$-1\r\n"}},
      {"nil array", {"*-1\r\n"}},
      {"integer 1", {":1\r\n"}},
      {"integer 7", {":7\r\n"}},
      {"integer below 0", {":-7\r\n"}},
      {"status", {"+OK\r\n"}},
      {"digit", {"$1\r\n0\r\n"}},
      {"text", {"$3\r\nabc\r\n"}},
      {"empty text", {"$0\r\n\r\n"}},
      {"error", {"-ERR \x1b[31mred\x1b[0m \xC2\x9B\r\n"}},
      {"error that passes", {"-BUSY \x1b[31mred\r\n"}},
      {"empty array", {"*0\r\n"}},
      {"array of nil", {"*1\r\n$-1\r\n"}},
      {"array of text", {"*1\r\n$3\r\nabc\r\n"}},
      {"array of 1", {"*1\r\n:1\r\n"}},
      {"array of integers", {"*2\r\n:7\r\n:7\r\n"}},
      {"array of three", {"*3\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n"}},
      {"nested array", {"*1\r\n*1\r\n$1\r\na\r\n"}},
      {"array of an error", {"*1\r\n-ERR \x1b[31mred\r\n"}},
      {"sum of text", {"*2\r\n$3\r\nsum\r\n$1\r\nx\r\n"}},
      {"sum of nil", {"*2\r\n$3\r\nsum\r\n$-1\r\n"}},
      {"reason with ESC", {"*2\r\n$9\r\n\x1b[31m red\r\n$1\r\n1\r\n"}},
      {"array without end", {"*2147483647\r\n"}},
      {"deep arrays", {"*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n"}},
      {"message", {"*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n:1\r\n"}},
      {"no reply", {"\x1b[31mHTTP/1.1 400\r\n"}},
      {"half a text", {"$9\r\nabc", FakeReply::Then::close}},
      {"end", {"", FakeReply::Then::close}},
  };
  return all;
}

struct Command {
  std::string name;
  /// Makes the call, which may take so long.
  std::function<void(Store&, std::chrono::milliseconds)> call;
  std::set<std::string> may_have = {};  ///< kinds of replies
  bool changes = true;
};

std::vector<Command> commands() {
  const auto add = [](Store& store, auto) { store.add("k", 1); };
  const std::set<std::string> numbers{"integer 1", "integer 7"};
  const std::set<std::string> texts{"status", "digit", "text", "empty text"};
  return {
      {"get", [](Store& s, auto) { s.get("k", 0s); }, {"array of text"}, false},
      {"get",
       [](Store& s, auto) {
         s.multi_get({"k", "l"}, 0s);
       },
       {"sum of text", "reason with ESC"},
       false},
      {"get", [](Store& s, auto limit) { s.get("k", limit); }, {"array of text"}, false},
      {"exist", [](Store& s, auto) { s.check({"k"}); }, {"digit"}, false},
      {"exist",
       [](Store& s, auto limit) {
         s.wait({"k", "l", "m"}, limit);
       },
       {},
       false},
      {"SUBSCRIBE", [](Store& s, auto limit) { s.wait({"k"}, limit); }, {}, false},
      {"set", [](Store& s, auto) { s.set("k", "v"); }, {"integer 1"}},
      {"set",
       [](Store& s, auto) {
         s.multi_set({"k", "l"}, {"v", "w"});
       },
       {"integer 1"}},
      {"add", add},
      {"append", [](Store& s, auto) { s.append("k", "v"); }, numbers},
      {"compare_set", [](Store& s, auto) { s.compare_set("k", "v", "w"); }, {"array of 1"}},
      {"remove", [](Store& s, auto) { s.remove("k"); }, numbers},
      {"remove_prefix", [](Store& s, auto) { s.remove_prefix("k"); }, numbers},
      {"push", [](Store& s, auto) { s.queue_push("k", "v"); }, numbers},
      {"pop", [](Store& s, auto) { s.queue_pop("k", 0s); }, texts},
      {"ZRANGEBYLEX",
       [](Store& s, auto) { s.list(""); },
       {"empty array", "array of text", "array of three", "sum of text", "reason with ESC"},
       false},
      {"ZLEXCOUNT", [](Store& s, auto) { s.count(""); }, numbers, false},
      {"LLEN", [](Store& s, auto) { s.queue_length("k"); }, numbers, false},
  };
}

std::shared_ptr<Store> open_redis_store(const test::FakeServer& server,
                                        const std::string& login = "",
                                        std::chrono::milliseconds limit = 50ms) {
  const std::string url = "redis://" + login + server.address() + "/job";
  // A server whose replies to a login are bad may leave the store waiting.
  auto store = client::open_remote_store(url, login.empty() ? 20s : limit);
  store->set_default_timeout(limit);
  return store;
}

/// The codes of the failures for a reply that a command may not have.
std::vector<Code> codes_of(const Command& command, const std::string& kind) {
  if (kind == "error") return {Code::internal};
  if (kind == "error that passes") return {Code::timed_out};
  if (kind == "reason with ESC" && command.name == "add") return {Code::internal};
  if (kind == "nil" || kind == "nil array") {
    if (command.name == "pop") return {Code::not_found};
  }
  const bool some_nil = kind == "array of nil" || kind == "sum of nil";
  if (some_nil && command.name == "get") {
    return {Code::not_found, Code::timed_out, Code::malformed};
  }
  if (command.changes) return {Code::outcome_unknown};
  const bool ends = kind == "half a text" || kind == "end";
  if (ends) return {Code::timed_out};
  if (kind == "array without end") return {Code::too_large};
  return {Code::malformed};
}

TEST(RedisReplies, EachKindToEachCommandIsRefusedOrMeansWhatItSays) {
  for (const Command& command : commands()) {
    for (const auto& [kind, reply] : kinds()) {
      const std::string what = command.name + ", " + kind;
      test::FakeServer server(take_command, good_redis_reply);
      const bool good = command.may_have.contains(kind);
      const std::vector<Code> codes = codes_of(command, kind);
      // Other replies end a call at once, however busy the machine is.
      const bool waits =
          !good && (command.changes || std::ranges::count(codes, Code::timed_out) > 0);
      const std::chrono::milliseconds limit = waits ? 50ms : 20s;
      const auto store = open_redis_store(server, "", limit);
      server.reply_with(command.name, reply);
      const auto error = error_of([&] { command.call(*store, limit); });
      if (good) {
        EXPECT_EQ(error.first, Code::ok) << what << ": " << error.second;
      } else {
        test::expect_refused(error, codes, what);
      }
    }
  }
}

TEST(RedisReplies, TheFailureSaysTheCommandWhatCameAndWhatWasExpected) {
  test::FakeServer server(take_command, good_redis_reply);
  const auto store = open_redis_store(server);
  server.reply_with("get", {"*0\r\n"});
  const auto [code, text] = error_of([&] { store->get("k", 0s); });
  EXPECT_EQ(code, Code::malformed);
  EXPECT_TRUE(test::has(text, "Redis at " + server.address() +
                                  ": unexpected reply to get: got an array of 0 elements, expected "
                                  "an array of 1 elements"));
  server.reply_with("remove", {"$1\r\nx\r\n"});
  EXPECT_TRUE(
      test::has(error_of([&] { store->remove("k"); }).second,
                "got a string of 1 bytes, expected an integer of at least 0; check that the URL "
                "leads to a Redis server, and not to a proxy that changes its replies; the "
                "change may or may not have been made"));
}

TEST(RedisReplies, ALoginAndTheScriptAreChecked) {
  for (const std::string command : {"AUTH", "SCRIPT"}) {
    for (const auto& [kind, reply] : kinds()) {
      if (command == "AUTH" && kind == "status") continue;
      test::FakeServer server(take_command, good_redis_reply);
      server.reply_with(command, reply);
      test::expect_refused(error_of([&] { open_redis_store(server, ":hunter2@"); }),
                           {Code::malformed, Code::timed_out, Code::too_large, Code::internal,
                            Code::permission_denied},
                           command + ", " + kind);
    }
  }
}

TEST(RedisReplies, AScriptThatIsSentAgainIsChecked) {
  for (const auto& [kind, reply] : kinds()) {
    if (kind == "integer 1" || kind == "integer 7") continue;
    test::FakeServer server(take_command, [](const FakeRequest& asked) {
      return good_redis_reply({asked.name == "append" ? "forgotten" : asked.name, asked.argument});
    });
    const auto store = open_redis_store(server);
    server.reply_with("EVAL", reply);
    test::expect_refused(error_of([&] { store->append("k", "v"); }),
                         {Code::outcome_unknown, Code::internal, Code::timed_out}, kind);
  }
}

TEST(RedisReplies, AReplyWithoutEndIsRefusedAtItsLimit) {
  std::string elements;
  while (elements.size() < 65536) elements += "+" + std::string(61, 'x') + "\r\n";
  for (const FakeReply& endless :
       {FakeReply{"$1073741824\r\n" + std::string(65536, 'x'), FakeReply::Then::repeat},
        FakeReply{"*4000000\r\n" + elements, FakeReply::Then::repeat},
        FakeReply{"+" + std::string(65536, 'x'), FakeReply::Then::repeat}}) {
    test::FakeServer server(take_command, good_redis_reply);
    const auto store = open_redis_store(server);
    server.reply_with("get", endless);
    store->set_default_timeout(60s);
    const auto [code, text] = error_of([&] { store->get("k", 0s); });
    EXPECT_EQ(code, Code::too_large) << text;
    const bool line = endless.bytes[1] == 'x';
    EXPECT_TRUE(test::has(text, line ? "bytes or more, limit 65536" : "bytes, limit 67108864"));
  }
}

TEST(RedisReplies, MessagesWithoutEndKeepNoCallBeyondItsTime) {
  std::string messages;  // of 32 bytes each
  while (messages.size() < 65536) messages += "*3\r\n$7\r\nmessage\r\n$1\r\nx\r\n$2\r\nyy\r\n";
  for (const std::string confirmed : {"", "*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n"}) {
    test::FakeServer server(take_command, good_redis_reply);
    const auto store = open_redis_store(server);
    server.reply_with("SUBSCRIBE", {confirmed + messages, FakeReply::Then::repeat});
    const auto begin = std::chrono::steady_clock::now();
    test::expect_refused(error_of([&] { store->wait({"k"}, 50ms); }), {Code::timed_out},
                         "messages");
    EXPECT_LT(std::chrono::steady_clock::now() - begin, 30s);
  }
}

TEST(RedisReplies, AReplyTooMuchIsNotTakenForTheNextOne) {
  test::FakeServer server(take_command, good_redis_reply);
  const auto store = open_redis_store(server);
  server.reply_with("append", {":1\r\n:7\r\n"});
  EXPECT_EQ(store->append("k", "v"), 1u);
  EXPECT_EQ(store->queue_push("k", "v"), 1u) << "on a new connection";
}

}  // namespace
}  // namespace c10dd
