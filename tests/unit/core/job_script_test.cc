// SPDX-License-Identifier: Apache-2.0
// Runs tests/unit/scripts: each line is a moment, a session, what it does, and what it hears.
//
//     0s   s1  hello host-a 0                 -> ok
//     1s   s1  wait a b 30s                   -> (pending)
//     5s   s1                                 -> ok            an answer that was waited for
//     8s   s2  get missing 0s                 -> not_found "1 of 1 keys"   the detail contains this
//     8s   s2  #7 acked=5 add n 1             -> ok 1          sequence and watermark, else counted
//     8s   s2  again                          -> ok 1          the last request once more
//     8s   s2  disconnect
//     9s   restart                            a new Job from the rows of the old one
//     9s   restart keys=3 sessions=2          likewise, with these quotas from now on
//     9s   rows 0                             how many rows the last step has written
//     9s   revision 7                         the job's revision
//     9s   depends 7                          the revision that the last answer depends on
//     8s   s1  wait a waited=9s 1s            -> (pending)     asked 9 s before, of its 10 s
//     9s   length 3                           Popped::length of the last pop
//     9s   waiters 2                          how many requests are blocked
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>

#include "daemon/core/job/job.h"
#include "protocol/native_wire.h"
#include "tests/paths.h"
#include "tests/unit/core/script_group_words.h"
#include "tests/unit/core/script_replies.h"

namespace c10dd::core {
namespace {

using script::Words;

class Stage {
 public:
  /// Runs a line. Returns what is wrong; empty if the line's expectation holds.
  std::string play(const std::string& line) {
    Words words = script::split(line);
    if (words.empty() || words[0].starts_with('#')) return {};
    std::string expected;
    std::string detail;
    const auto arrow = std::ranges::find(words, "->");
    if (arrow != words.end()) {
      const std::size_t end = line.find("->") + 2;
      expected = line.substr(line.find_first_not_of(' ', end));
      const std::size_t quote = expected.find(" \"");
      if (quote != std::string::npos && !expected.starts_with("ok")) {
        detail = expected.substr(quote + 2, expected.rfind('"') - quote - 2);
        expected.resize(quote);
      }
      words.erase(arrow, words.end());
    }
    const TimePoint at{script::duration(words[0])};
    if (const std::string late = advance(at); !late.empty()) return late;
    if (words[1] == "rows") return same(std::to_string(rows_), words[2]);
    if (words[1] == "revision") return same(std::to_string(job_->revision()), words[2]);
    if (words[1] == "depends") return same(std::to_string(observed_), words[2]);
    if (words[1] == "length") return same(std::to_string(length_), words[2]);
    if (words[1] == "waiters") return same(std::to_string(job_->stats().waiters), words[2]);
    const bool restarts = words[1] == "restart";
    const bool hears = words.size() == 2 && !restarts;
    for (const auto& [name, heard] : inbox_) {
      if (!heard.empty() && !(hears && name == words[1]) && at > heard.front().at) {
        return name + " has heard " + script::text_of(heard.front().reply);
      }
    }
    if (restarts) return restart({words.begin() + 2, words.end()});
    if (hears) return hear(words[1], expected, detail);
    return speak(words[1], {words.begin() + 2, words.end()}, expected, detail);
  }

  /// Ends all sessions, and audits before and after.
  std::string end() {
    for (const auto& [name, heard] : inbox_) {
      if (!heard.empty()) return name + " has heard " + script::text_of(heard.front().reply);
    }
    if (const AuditResult found = job_->audit()) return *found;
    for (const auto& [name, caller] : callers_) take(job_->disconnect(caller.id, now_));
    while (job_->stats().sessions_known > 0) {
      if (!job_->next_deadline()) return "a session that never ends";
      now_ = std::max(now_, *job_->next_deadline());
      take(job_->tick(now_));
    }
    return job_->audit().value_or("");
  }

 private:
  struct Heard {
    TimePoint at;
    Reply reply;
  };
  struct Caller {
    SessionId id;
    CallId call;
    std::uint64_t next = 1;
    Request request;
    std::map<std::string, std::uint64_t> round = {};   // by group: of its newest place
    std::map<std::string, std::uint64_t> status = {};  // and of the newest news
    std::string group = {};                            // that it joined or followed last
  };

  static std::string same(const std::string& got, const std::string& expected) {
    return got == expected ? std::string() : "got " + got + ", expected " + expected;
  }

  static std::string judge(const Reply& got, const std::string& expected,
                           const std::string& detail) {
    const std::string said = got ? "" : got.error().detail;
    if (script::text_of(got) != expected || said.find(detail) == std::string::npos) {
      return "got " + script::text_of(got) + " \"" + said + "\", expected " + expected + " \"" +
             detail + "\"";
    }
    return {};
  }

  Caller& caller(const std::string& name) {
    Caller& c = callers_[name];
    c.id = {7, static_cast<std::uint64_t>(script::number(name.substr(1)))};
    return c;
  }

  void take(Effects effects) {
    EXPECT_EQ(effects.revision, job_->revision());
    job_->append_reply_rows(effects.rows);
    // The row of a session is not counted: it is written with the first other row.
    rows_ = static_cast<std::size_t>(std::ranges::count_if(
        effects.rows, [](const RowView& row) { return row.key.front() != 's'; }));
    for (const RowView& row : effects.rows) {
      if (row.kind == Row::Kind::put) table_[Bytes(row.key)] = row.value;
      if (row.kind == Row::Kind::erase) table_.erase(Bytes(row.key));
      if (row.kind == Row::Kind::erase_prefix) {
        std::erase_if(table_, [&](const auto& entry) { return entry.first.starts_with(row.key); });
      }
    }
    for (OutgoingReply& reply : effects.replies) {
      EXPECT_LE(reply.observed, effects.revision);
      observed_ = reply.observed;
      const std::string name = "s" + std::to_string(reply.to.low);
      inbox_[name].push_back({now_, std::move(reply.result)});
      if (reply.op == Goodbye::op.code) callers_.erase(name);
    }
  }

  std::string advance(TimePoint at) {
    for (int turns = 0; job_->next_deadline() && *job_->next_deadline() <= at; ++turns) {
      if (turns == 100'000) return "the same deadline again and again";
      now_ = *job_->next_deadline();
      take(job_->tick(now_));
    }
    now_ = at;
    return {};
  }

  std::string hear(const std::string& name, const std::string& expected,
                   const std::string& detail) {
    std::vector<Heard>& heard = inbox_[name];
    if (heard.empty()) return "nothing heard, expected " + expected;
    const Heard first = heard.front();
    heard.erase(heard.begin());
    remember(callers_[name], first.reply);
    if (first.at != now_) return "heard at another time: " + script::text_of(first.reply);
    return judge(first.reply, expected, detail);
  }

  std::string speak(const std::string& name, Words words, const std::string& expected,
                    const std::string& detail) {
    Caller& c = caller(name);
    if (words[0] == "disconnect") {
      take(job_->disconnect(c.id, now_));
      return {};
    }
    if (words[0] != "again") {
      c.call.sequence = words[0] == "hello" ? 0 : c.next++;
      if (words[0].starts_with('#')) {
        c.call.sequence = static_cast<std::uint64_t>(script::number(words[0].substr(1)));
        c.next = c.call.sequence + 1;
        words.erase(words.begin());
      }
      if (words[0].starts_with("acked=")) {
        c.call.acked_below = static_cast<std::uint64_t>(script::number(words[0].substr(6)));
        words.erase(words.begin());
      }
      c.request = request(c, words[0], {words.begin() + 1, words.end()});
      Bytes frame;
      native::encode_request(frame, {}, c.request);
      c.call.fingerprint = native::fingerprint(
          info_of(c.request).code, std::string_view(frame).substr(native::RequestHeader::kSize));
    }
    const auto* hello = std::get_if<Hello>(&c.request);
    Effects effects =
        job_->apply({c.id, c.id.low, hello != nullptr && hello->fleeting}, c.call, c.request, now_);
    OptionalReply own;
    Revision observed = 0;
    for (auto it = effects.replies.begin(); it != effects.replies.end(); ++it) {
      if (it->to != c.id || it->sequence != c.call.sequence) continue;
      own = it->result;
      observed = it->observed;
      if (it->op != Goodbye::op.code) effects.replies.erase(it);
      break;
    }
    const bool bye = own && std::holds_alternative<Goodbye>(c.request);
    take(std::move(effects));
    if (bye) inbox_[name].pop_back();
    if (!own) return same("(pending)", expected);
    observed_ = observed;
    remember(c, *own);
    return judge(*own, expected, detail);
  }

  static Request request(Caller& c, const std::string& op, Words words) {
    const auto option = std::ranges::find_if(
        words, [](const std::string& word) { return word.starts_with("waited="); });
    if (option == words.end()) return plain_request(c, op, words);
    const Duration waited = script::duration(option->substr(option->find('=') + 1));
    words.erase(option);
    Request request = plain_request(c, op, words);
    std::visit(
        [&](auto& r) {
          if constexpr (requires { r.waited; }) r.waited = waited;
        },
        request);
    return request;
  }

  static Request plain_request(Caller& c, const std::string& op, const Words& words) {
    auto of_group = script::group_request(op, words);
    if (!of_group) return script::request(op, words, c.id);
    auto* join = std::get_if<Join>(&*of_group);
    if (join != nullptr) c.group = join->group;
    if (join != nullptr && join->round == script::kLast) join->round = c.round[join->group];
    auto* follow = std::get_if<WatchGroup>(&*of_group);
    if (follow != nullptr) c.group = follow->group;
    if (follow != nullptr && follow->seen == script::kLast) follow->seen = c.status[follow->group];
    return *of_group;
  }

  void remember(Caller& c, const Reply& reply) {
    if (!reply) return;
    if (const auto* popped = std::get_if<Popped>(&*reply)) length_ = popped->length;
    if (const auto* joined = std::get_if<Joined>(&*reply)) {
      c.round[c.group] = joined->round;
      c.status[c.group] = joined->status;
    } else if (const auto* status = std::get_if<GroupStatus>(&*reply)) {
      c.status[c.group] = status->number;
    }
  }

  std::string restart(const Words& quotas) {
    for (const std::string& quota : quotas) {
      const std::size_t equals = std::min(quota.find('='), quota.size() - 1);
      const auto value = static_cast<std::size_t>(script::number(quota.substr(equals + 1)));
      const std::string name = quota.substr(0, equals);
      if (name == "keys") quotas_.keys = value;
      if (name == "bytes") quotas_.bytes = value;
      if (name == "sessions") quotas_.sessions = value;
      if (name == "waits") quotas_.waits = value;
      if (name == "queue_items") quotas_.queue_items = value;
      if (name == "queue_bytes") quotas_.queue_bytes = value;
      if (name == "history_changes") quotas_.history_changes = value;
      if (name == "expiry_s") quotas_.session_expiry = std::chrono::seconds(value);
    }
    job_ = std::make_unique<Job>(1, Stamp{9, ++epoch_, job_->revision()}, quotas_);
    for (const auto& [key, value] : table_) {
      if (!job_->restore({Row::Kind::put, key, value})) return "a row is not restored";
    }
    return job_->resume(now_) ? "" : "not resumed";
  }

  using OptionalReply = std::optional<Reply>;

  Epoch epoch_ = 1;
  Quotas quotas_;
  std::unique_ptr<Job> job_ = std::make_unique<Job>(1, Stamp{9, 1, 0});
  TimePoint now_;
  std::map<Bytes, Bytes> table_;
  std::map<std::string, Caller> callers_;
  std::map<std::string, std::vector<Heard>> inbox_;
  std::size_t rows_ = 0;
  Revision observed_ = 0;
  std::uint64_t length_ = 0;
};

class Script : public testing::TestWithParam<std::string> {};

TEST_P(Script, HoldsLineByLine) {
  std::ifstream file(GetParam());
  ASSERT_TRUE(file.good());
  Stage stage;
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    const std::string wrong = stage.play(line);
    ASSERT_EQ(wrong, "") << GetParam() << ':' << number << ": " << line;
  }
  EXPECT_EQ(stage.end(), "");
}

std::vector<std::string> scripts() {
  std::vector<std::string> paths;
  for (const auto& entry :
       std::filesystem::directory_iterator(test::source_folder() + "/tests/unit/core/scripts")) {
    paths.push_back(entry.path());
  }
  std::ranges::sort(paths);
  return paths;
}

INSTANTIATE_TEST_SUITE_P(Job, Script, testing::ValuesIn(scripts()), [](const auto& script) {
  return std::filesystem::path(script.param).stem().string();
});

}  // namespace
}  // namespace c10dd::core
