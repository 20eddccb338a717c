// SPDX-License-Identifier: Apache-2.0
// Writes the first inputs of the fuzz targets that can be made from the code itself, so that they
// follow it: frames and JSON of every operation, slots, records, decisions at random.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <random>

#include "client/stores/file_format.h"
#include "protocol/native_wire.h"
#include "protocol/relay_frame.h"
#include "protocol/tcpstore_wire.h"
#include "store/job_head.h"
#include "store/rocks/high_water.h"
#include "tests/fuzz/group_stories.h"
#include "tests/unit/protocol/tcpstore_traces.h"
#include "tests/unit/protocol/wire_samples.h"

namespace {

using c10dd::Bytes;
using c10dd::fuzz::InputWriter;
namespace native = c10dd::native;
namespace samples = c10dd::samples;

class Seeds {
 public:
  explicit Seeds(std::filesystem::path folder) : folder_(std::move(folder)) {}

  void add(const std::string& target, const std::string& name, const Bytes& bytes) {
    std::filesystem::create_directories(folder_ / target);
    std::ofstream file(folder_ / target / name, std::ios::binary | std::ios::trunc);
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    good_ = good_ && file.flush().good();
  }
  bool good() const { return good_; }

 private:
  std::filesystem::path folder_;
  bool good_ = true;
};

Bytes reply_frame(std::uint8_t op, const c10dd::Reply& reply, std::uint64_t sequence) {
  native::ReplyHeader header;
  header.op = op;
  header.channel = 1;
  header.sequence = sequence;
  const native::EncodedReply encoded = native::encode_reply(header, reply);
  return encoded.head + Bytes(encoded.tail.view());
}

void add_relays(Seeds& seeds) {
  native::RelayFrame frame{{1, 2}, "127.0.0.1:2000", "torch", "", {}};
  seeds.add("relay_frame", "frame", native::encode_relay(frame));
  frame.run = "r1";
  frame.peer = "[::1]:2000";
  seeds.add("relay_frame", "frame_with_run", native::encode_relay(frame));
  seeds.add("relay_frame", "taken", native::encode_relay_reply({}));
  c10dd::Failure refusal = c10dd::failure(c10dd::Code::not_owner, "owned by another daemon");
  refusal.addresses = {"head2:29500"};
  seeds.add("relay_frame", "refused", native::encode_relay_reply(refusal));
}

void add_wire(Seeds& seeds) {
  samples::for_each_request(1, [&](const c10dd::Request& request) {
    const std::string name(info_of(request).name);
    Bytes frame(native::kMagic);
    native::encode_request(frame, {}, request);
    seeds.add("native_wire", name + "_request", frame);
  });
  samples::for_each_reply(1, [&](std::uint8_t op, const c10dd::Reply& reply) {
    seeds.add("native_wire", std::string(c10dd::find_op(op)->name) + "_reply",
              reply_frame(op, reply, 1));
  });
  const c10dd::Reply failed = samples::sample<c10dd::Failure>(1);
  seeds.add("native_wire", "failure_reply", reply_frame(c10dd::Get::op.code, failed, 1));
  Bytes parts;
  c10dd::wire::Writer(parts).put(samples::sample<std::vector<Bytes>>(1));
  seeds.add("exchange_parts", "three", parts);
}

/// What real clients of PyTorch's TCPStore have sent.
void add_tcpstore(Seeds& seeds) {
  namespace traces = c10dd::traces;
  const std::pair<const char*, std::string_view> all[] = {{"v4", traces::kV4},
                                                          {"l0", traces::kL0},
                                                          {"l0_callbacks", traces::kL0Callbacks},
                                                          {"l1", traces::kL1}};
  for (const auto& [name, trace] : all) {
    Bytes stream;
    Bytes replies;
    for (const traces::Line& line : traces::lines_of(trace)) {
      (line.from_client ? stream : replies) += line.bytes;
    }
    for (std::size_t step = 0; step < 3; ++step) {
      const Bytes settings = InputWriter().byte(0).byte(step).take();
      seeds.add("tcpstore_wire", name + std::to_string(step), settings + stream);
      seeds.add("tcpstore_wire", name + std::to_string(step) + "_replies", settings + replies);
      seeds.add("tcpstore_dialogue", name + std::to_string(step), settings + stream);
    }
  }
}

/// What servers of other projects reply to the stores of the SDK.
void add_foreign_replies(Seeds& seeds) {
  const Bytes digest = "$40\r\n" + Bytes(40, 'a') + "\r\n";
  const Bytes redis[] = {
      "+OK\r\n" + digest + ":1\r\n:7\r\n-NOSCRIPT no\r\n-ERR hash value is not an integer\r\n",
      "*1\r\n$1\r\nv\r\n*2\r\n$1\r\nv\r\n$-1\r\n$2\r\n01\r\n$1\r\n1\r\n*0\r\n*-1\r\n",
      "*2\r\n$3\r\nsum\r\n$2\r\n12\r\n*2\r\n$8\r\noverflow\r\n$1\r\n9\r\n",
      "*1\r\n:1\r\n*2\r\n:0\r\n$1\r\nv\r\n*2\r\n:0\r\n$-1\r\n*2\r\n$1\r\nk\r\n$2\r\nkl\r\n",
      "*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$0\r\n\r\n",
      "*2147483647\r\n",
      "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n"};
  for (std::size_t n = 0; n < std::size(redis); ++n) {
    seeds.add("redis_store_replies", std::to_string(n),
              InputWriter().byte(n).bytes(redis[n]).take());
  }
  const Bytes entry = R"({"key":"aw==","value":"dg==","mod_revision":"4"})";
  const Bytes range = R"({"header":{"revision":"5"},"count":"1","kvs":[)" + entry + "]}";
  const Bytes put = R"({"response_put":{"header":{"revision":"5"}}})";
  const Bytes etcd[] = {
      range,
      R"({"header":{"revision":"5"},"deleted":"1"})",
      R"({"header":{"revision":"5"},"succeeded":true,"responses":[)" + put +
          R"(,{"response_range":)" + range + "}]}",
      R"({"header":{"revision":"5"},"responses":[{"response_range":)" + range + "}]}",
      R"({"error":"etcdserver: no leader","code":14})",
      R"({"result":{"events":[{"kv":)" + entry + "}]}}\n{\"result\":{\"canceled\":true}}\n"};
  for (std::size_t n = 0; n < std::size(etcd); ++n) {
    const auto kind = [&](std::size_t what) { return InputWriter().byte(n).byte(what); };
    const Bytes name = std::to_string(n);
    const Bytes size = std::to_string(etcd[n].size());
    seeds.add("etcd_replies", name, kind(n == 5 ? 3 : 2).bytes(etcd[n]).take());
    const Bytes http = "HTTP/1.1 200 OK\r\nContent-Length: " + size + "\r\n\r\n" + etcd[n];
    seeds.add("etcd_replies", name + "_http", kind(n == 5).bytes(http).take());
  }
  seeds.add("etcd_replies", "chunked",
            Bytes("\3\0", 2) +
                "HTTP/1.1 503 No\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n");
}

/// What a server of PyTorch's TCPStore replies to each operation.
void add_tcpstore_replies(Seeds& seeds) {
  namespace tcpstore = c10dd::tcpstore;
  using tcpstore::Query;
  InputWriter queries;
  Bytes replies;
  const auto add = [&](Query query, std::size_t keys = 0) {
    queries.byte(keys * tcpstore::kQueries + static_cast<std::size_t>(query));
  };
  add(Query::check);
  tcpstore::put_byte(replies, tcpstore::kReady);
  add(Query::cancel_wait);
  tcpstore::put_byte(replies, tcpstore::kWaitCancelled);
  add(Query::add);
  tcpstore::put_number(replies, -7);
  add(Query::get);
  tcpstore::put_text(replies, "v");
  add(Query::multi_get, 2);
  tcpstore::put_text(replies, "v");
  tcpstore::put_text(replies, "");
  add(Query::list_keys);
  tcpstore::put_number(replies, 1);
  tcpstore::put_text(replies, "/k");
  add(Query::queue_pop);
  tcpstore::put_number(replies, 1);
  tcpstore::put_text(replies, "item");
  const Bytes all = queries.take();
  for (std::size_t step = 0; step < 3; ++step) {
    InputWriter input;
    input.byte(step).byte(all.size()).bytes(all).bytes(replies);
    seeds.add("tcpstore_replies", std::to_string(step), input.take());
  }
}

void add_files(Seeds& seeds) {
  for (const std::uint8_t holds : {0, 1, 2}) {
    c10dd::store::HighWaterMark mark{10, 2, 3, 9, 4};
    mark.holds = static_cast<c10dd::store::HighWaterMark::Holds>(holds);
    const Bytes slot = c10dd::store::encode_high_water_slot({holds, mark});
    seeds.add("high_water", std::to_string(holds), holds == 0 ? slot : slot.substr(0, 128));
  }
  namespace client = c10dd::client;
  const auto changes = samples::sample<std::vector<client::LocalChange>>(1);
  Bytes file = client::encode_header(7);
  const Bytes record = client::encode_record(changes, file.size());
  seeds.add("file_format", "file",
            file + record + client::encode_record(changes, file.size() + record.size()));
  InputWriter bodies;
  bodies.number(7);
  for (std::uint64_t n = 0; n < 3; ++n) {
    Bytes body;
    c10dd::wire::Writer(body).put(samples::sample<std::vector<client::LocalChange>>(n));
    bodies.text(body);
  }
  seeds.add("file_format", "bodies", bodies.take());
  const Bytes head = c10dd::wire::encode(c10dd::store::JobHead{2, 10, 8});
  seeds.add("rocks_layout", "head",
            InputWriter().number(5).text("k").text("ey").text(head).bytes(Bytes(40, '\1')).take());
}

void add_directory(Seeds& seeds) {
  const auto number = [](std::uint64_t n) { return InputWriter().byte('n').number(n).take(); };
  const Bytes job = InputWriter().byte('j').number(1).bytes("ar").take();
  seeds.add("directory_rows", "rows",
            InputWriter()
                .byte(3)
                .text("i")
                .text(number(77))
                .text(job)
                .text(number(2))
                .text("n")
                .text(number(5))
                .byte(9)
                .bytes(Bytes("\0\1\0\2\1\0\7\xFF\0\3\7", 11))
                .take());
  // A lease, its renewal, a connection that comes and goes, and the end; then another one, time
  // and a release.
  seeds.add("directory_rows", "endpoints",
            InputWriter()
                .byte(0)
                .byte(9)
                .bytes(Bytes("\1\0", 2))
                .bytes(Bytes("\3\0\0\1\7\3\x10", 7))
                .bytes(Bytes("\3\0\0\1\7\3", 6))
                .bytes(Bytes("\5\0\0\0\6\xFF\5\0\0\1\6\xFF", 12))
                .bytes(Bytes("\3\0\1\0\x0B\3\x11\7\xFF\4\0\1\7\xFF", 14))
                .take());
}

}  // namespace

namespace c10dd::fuzz {
namespace {

/// A rank that waits in a collective and in a receive.
Activity activity(Rank rank, std::uint64_t sequence, const std::string& call) {
  using Kind = UnfinishedOperation::Kind;
  const Duration second = std::chrono::seconds(1);
  const GroupActivity group{
      7,
      {sequence + 1, 0, 1},
      {1, 1, 1},
      {{Kind::collective, true, sequence, second, Duration(1), -1, call, "0"},
       {Kind::receive, false, 0, second, Duration(0), 1 - std::int64_t{rank % 2}, "b", ""}},
      {{2, rank}},
      {{1, second, Duration(0)}}};
  return {
      {{7, "world", "a", 1, 3, rank, rank}}, {}, {group}, true, rank == 1, {{7, 0, call, "1"}}, {}};
}

/// Requests by which every kind of row comes to be.
std::vector<std::pair<std::uint8_t, Request>> story() {
  const Duration second = std::chrono::seconds(1);
  const Duration hour = std::chrono::hours(1);
  const auto exchange = [&](Rank rank, std::uint64_t sequence, Shape shape,
                            std::vector<Bytes> parts) {
    return Exchange{"a", 0, sequence, rank, 2, shape, 1, std::move(parts), hour, 0};
  };
  Transact change;
  change.conditions = {{Condition::Kind::exists, "a", "", 0}};
  change.actions = {{Action::Kind::add, "7", "", 2, Duration(0), false},
                    {Action::Kind::push, "b", "ab", 0, Duration(0), false}};
  return {{0, Watch{"", true, 0, 0, second}},
          {1, Watch{"a", false, 0, 0, second}},
          {0, Set{"a", "0", hour, false}},
          {0, Set{"b", "7", Duration(0), true}},
          {1, Add{"7", 5}},
          {1, CompareSet{"ab", "", "abc"}},
          {2, MultiSet{{"b/1", "b/2"}, {"0", "-1"}}},
          {2, Append{"abc", "world"}},
          {0, QueuePush{"a", "b"}},
          {0, QueuePush{"a", "ab"}},
          {1, QueuePop{"a", second}},
          {0, change},
          {0, exchange(0, 0, Shape::all, {"a"})},
          {1, exchange(1, 0, Shape::all, {"b"})},
          {0, exchange(0, 1, Shape::from_root, {})},
          {1, exchange(1, 1, Shape::from_root, {"a", "b"})},
          {0, exchange(0, 2, Shape::transpose, {"a", "b"})},
          {1, exchange(1, 2, Shape::transpose, {"ab", ""})},
          {1, exchange(1, 3, Shape::to_root, {"a"})},
          {0, Barrier{"a", 0, 0, 0, 2, hour}},
          {1, Barrier{"a", 0, 0, 1, 2, hour}},
          {2, Barrier{"a", 0, 1, 0, 2, hour}},
          {2, Remove{"b/1"}},
          {0, RemovePrefix{"b"}},
          {2, Report{1, {}}},
          {0, activity(0, 3, "a")},
          {1, activity(1, 3, "b")},
          {2, activity(2, 2, "a")},
          {1, Activity{{}, {7}, {}, false, false, {}, {}}},
          {1, Goodbye{}}};
}

}  // namespace
}  // namespace c10dd::fuzz

namespace {

/// The story as decisions of job_world.cc, then others, then damage as fuzz_job_rows.cc reads it.
void add_stories(Seeds& seeds) {
  std::mt19937_64 random(2);
  const auto told = c10dd::fuzz::story();
  for (std::size_t n = 0; n < told.size(); ++n) {
    InputWriter steps;
    // Ever longer, so that each request is the last of one.
    for (std::size_t at = 0; at <= n; ++at) {
      steps.byte(told[at].first).byte(7).byte(7);
      c10dd::fuzz::Undraw(steps).put(told[at].second);
    }
    const Bytes bytes = steps.take();
    const std::string name = "story_" + std::to_string(n);
    const Bytes commit("\0\2\xFF", 3);
    const Bytes restart("\0\3", 2);
    const Bytes repeat("\0\4", 2);
    seeds.add("job_requests", name,
              Bytes(1, '\0') + bytes + commit + repeat + Bytes(1, static_cast<char>(n)) + restart +
                  repeat + Bytes(1, static_cast<char>(n)) + bytes);
    InputWriter damaged;
    damaged.byte(0).byte(n + 1).bytes(bytes).byte(1 + n % 4);
    for (std::size_t edit = 0; edit < 4; ++edit) {
      damaged.byte(1 + random() % 5).byte(random() & 0x7F).byte(random() & 0x7F).byte(random() & 7);
    }
    seeds.add("job_rows", name, damaged.bytes(bytes).take());
  }
}

/// The group stories as decisions, then a commit, a restart and the second half again; as damage;
/// and as what goes over the wires.
void add_group_stories(Seeds& seeds) {
  using c10dd::fuzz::decisions;
  std::mt19937_64 random(3);
  std::size_t number = 0;
  for (const auto& story : c10dd::fuzz::group_stories()) {
    Bytes stream(native::kMagic);
    const std::string name = "group_" + std::to_string(number++) + "_";
    for (const c10dd::fuzz::Deed& deed : story) {
      if (const auto* request = std::get_if<c10dd::Request>(&deed.does)) {
        native::encode_request(stream, {}, *request);
      }
    }
    seeds.add("native_wire", name + "stream", stream);
    for (std::size_t n = story.size(); n > 3; n = n * 3 / 4) {
      const std::span told = std::span(story).first(n);
      const Bytes all = decisions(told);
      const Bytes commit_and_restart("\0\2\xFF\0\3", 5);
      seeds.add("job_requests", name + std::to_string(n),
                Bytes(1, '\0') + all + commit_and_restart + decisions(told.subspan(n / 2)));
      InputWriter damaged;
      damaged.byte(0).byte(n).bytes(all).byte(1);
      damaged.byte(6).byte(random() & 0x7F).byte(random() & 0x7F).byte(random() & 0x7F);
      seeds.add("job_rows", name + std::to_string(n), damaged.bytes(all).take());
    }
  }
}

/// Decisions: any bytes will do.
void add_random(Seeds& seeds) {
  std::mt19937_64 random(1);
  for (const char* target :
       {"job_requests", "job_rows", "client_core", "directory_rows", "rocks_layout", "text"}) {
    for (int n = 0; n < 12; ++n) {
      Bytes bytes;
      for (auto size = 40 + random() % 400; size > 0; --size) {
        // Small numbers mean ordinary values.
        const auto byte = random();
        bytes.push_back(static_cast<char>(n % 3 == 0 ? byte : byte % 0x80));
      }
      seeds.add(target, "random_" + std::to_string(n), bytes);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
    return 2;
  }
  Seeds seeds(argv[1]);
  add_wire(seeds);
  add_relays(seeds);
  add_tcpstore(seeds);
  add_foreign_replies(seeds);
  add_tcpstore_replies(seeds);
  add_files(seeds);
  add_directory(seeds);
  add_stories(seeds);
  add_group_stories(seeds);
  add_random(seeds);
  if (!seeds.good()) std::fprintf(stderr, "fuzz_seeds: cannot write into %s\n", argv[1]);
  return seeds.good() ? 0 : 1;
}
