// SPDX-License-Identifier: Apache-2.0
// Keeps rows in Redis, shared by several daemons. redis/commands.h has the keys and scripts of a
// job. All jobs share the keys <prefix>:jobs (a set) and <prefix>:format (a number). A commit()
// calls one script per job, for all jobs in one round trip. There is one blocking connection; it
// fails if the server sends nothing for 2 s.
// Promised: with durability() "fsync" (appendonly yes, appendfsync always), changes that were
// reported durable survive a crash and a power loss of this one master. The commit script refuses
// the batches of an owner that was replaced. Notices if the server has lost its keys, a job's rows,
// or changes that this engine has seen durable. A reply of an unexpected type or size closes the
// connection.
// Not promised: the engine does not notice that Redis lost acknowledged rows in a failover
// (Sentinel, Cluster) before it committed them itself, or that the server's settings changed during
// the connection. jobs() may list a job whose first claim failed.
#include <algorithm>
#include <map>
#include <random>
#include <string>

#include "protocol/format.h"
#include "protocol/limits.h"
#include "protocol/parse.h"
#include "store/engines.h"
#include "store/job_head.h"
#include "store/redis/commands.h"
#include "store/redis/link.h"

namespace c10dd::store {
namespace {

using Kind = RedisReply::Kind;

constexpr std::size_t kReplyBytes = 16 * 1024 * 1024;
constexpr std::size_t kPageBytes = 1024 * 1024;  // wanted size of one page of a scan
const std::string kFormat = std::to_string(kStoredFormat);

/// Returns a number that this process has drawn.
std::uint64_t this_process() {
  static const std::uint64_t drawn = [] {
    std::random_device device;
    return std::uint64_t{device()} << 32 | device();
  }();
  return drawn;
}

/// Parses "EPOCH REVISION EPOCH REVISION ...".
bool parse_starts(std::string_view words, std::vector<EpochStart>& starts) {
  while (!words.empty()) {
    const std::string_view epoch = words.substr(0, words.find(' '));
    words.remove_prefix(std::min(words.size(), epoch.size() + 1));
    const std::string_view revision = words.substr(0, words.find(' '));
    words.remove_prefix(std::min(words.size(), revision.size() + 1));
    const auto first = parse_number<Epoch>(epoch);
    const auto second = parse_number<Revision>(revision);
    if (!first || !second) return false;
    starts.push_back({*first, *second});
  }
  return !starts.empty();
}

class RedisEngine final : public Engine {
 public:
  RedisEngine(RedisAddress address, std::uint64_t process)
      : address_(std::move(address)), process_(process) {}

  /// Must be called first. Connects, reads settings, checks the server's role and data format.
  Result<void> start() {
    Result<std::unique_ptr<RedisLink>> link = RedisLink::open(address_.host, address_.port);
    if (!link) return drop(link.error().detail);
    link_ = std::move(*link);
    if (Result<void> known = log_in(); !known) return known;
    Result<RedisReply> role = call({"ROLE"});
    if (!role) return role.error();
    if (role->items.empty() || !role->items[0].is_bytes()) return unexpected("ROLE", *role);
    if (role->items[0].text != "master")
      return drop("the server is a replica: use the address of its master");
    durability_ =
        redis_durability(setting("appendonly"), setting("appendfsync"),
                         setting("no-appendfsync-on-rewrite"), setting("maxmemory-policy"));
    Result<RedisReply> digest = call({"SCRIPT", "LOAD", kRedisCommitScript});
    if (!digest) return digest.error();
    if (!digest->is_bytes()) return unexpected("SCRIPT LOAD", *digest);
    digest_ = digest->text;
    return check_format();
  }

  std::string_view name() const override { return "redis"; }
  std::string_view durability() const override { return durability_; }
  bool shared() const override { return true; }

  Result<std::vector<JobNumber>> jobs() override {
    Result<RedisReply> members = call({"SMEMBERS", jobs_key()});
    if (!members) return members.error();
    std::vector<JobNumber> numbers(members->items.size());
    bool ok = members->kind == Kind::array;
    for (std::size_t n = 0; n < numbers.size(); ++n) ok &= members->items[n].number(numbers[n]);
    if (!ok) return unexpected("SMEMBERS", *members);
    std::sort(numbers.begin(), numbers.end());
    return numbers;
  }

  using Engine::claim;
  Result<Claim> claim(JobNumber job, const Witness* witness) override {
    // The set of jobs may be in another cluster slot, so the claim script cannot change it. The set
    // is changed first, so that every claimed job is listed.
    Result<RedisReply> listed = call({"SADD", jobs_key(), std::to_string(job)});
    if (!listed) return listed.error();
    const std::string starts = std::to_string(kEpochStarts);
    Result<RedisReply> claimed = call(
        {"EVAL", kRedisClaimScript, "3", head_key(job), redis_rows_key(address_.prefix, job),
         redis_rows_key(address_.prefix, 0), format("{:016x}", process_),
         witness != nullptr ? witness->key : "", witness != nullptr ? witness->value : "", starts});
    if (!claimed) return claimed.error();
    if (claimed->is_array(1) && claimed->items[0].text == "witness") return no_witness(job);
    if (claimed->is_array(1)) {
      return failure(Code::malformed,
                     "{}job {} has rows in {}, but no head: it was erased; restore the server from "
                     "a copy, or erase the rows, too",
                     where(), job, redis_rows_key(address_.prefix, job));
    }
    Claim claim;
    if (!claimed->is_array(3) || !claimed->items[0].number(claim.epoch) ||
        !claimed->items[1].number(claim.revision) ||
        !parse_starts(claimed->items[2].text, claim.starts)) {
      return unexpected("a claim", *claimed);
    }
    return claim;
  }

  Result<void> renew(const Ownership& owner) override {
    const Outcome outcome = confirm({&owner, 1}).front();
    if (outcome == Outcome::unknown) return lost();
    return outcome == Outcome::durable ? Result<void>() : not_owner(owner);
  }

  Result<void> release(const Ownership& owner) override {
    Result<RedisReply> released =
        call({"EVAL", kRedisReleaseScript, "1", head_key(owner.job), name_of(owner)});
    if (!released) return released.error();
    if (released->kind != Kind::integer) return unexpected("a release", *released);
    return released->integer == 1 ? Result<void>() : not_owner(owner);
  }

  std::unique_ptr<RowReader> read(JobNumber job) override {
    return std::make_unique<Reader>(*this, job);
  }

  std::vector<Outcome> commit(std::span<const JobBatch> batches) override {
    std::vector<Outcome> outcomes(batches.size(), Outcome::unknown);
    std::map<JobNumber, std::vector<const JobBatch*>> groups;
    for (const JobBatch& batch : batches) groups[batch.job].push_back(&batch);
    for (const std::string_view verb :
         {"EVALSHA", "EVAL"}) {  // EVAL for a server that does not know the script
      if (groups.empty() || !link_) break;
      Bytes out;
      for (const auto& [job, group] : groups) {
        append_redis_commit(out, verb, verb == "EVAL" ? kRedisCommitScript : digest_,
                            address_.prefix, process_, group);
      }
      if (Result<void> sent = link_->send(out); !sent) drop(sent.error().detail);
      for (auto at = groups.begin(); at != groups.end() && link_;) {
        const bool answered = read_outcomes(at->second, batches.data(), outcomes);
        at = answered ? groups.erase(at) : std::next(at);
      }
    }
    if (!groups.empty() && link_) drop("the server does not run the commit script");
    return outcomes;
  }

  std::vector<Outcome> confirm(std::span<const Ownership> owners) override {
    std::vector<Outcome> outcomes(owners.size(), Outcome::unknown);
    if (!link_) return outcomes;
    Bytes out;
    for (const Ownership& owner : owners) {
      append_redis_command(out, {"HGET", head_key(owner.job), "owner"});
    }
    if (Result<void> sent = link_->send(out); !sent) drop(sent.error().detail);
    for (std::size_t n = 0; n < owners.size() && link_; ++n) {
      Result<RedisReply> reply = link_->receive(kReplyBytes);
      if (!reply) {
        drop(reply.error().detail);
      } else if (reply->kind == Kind::nil) {
        outcomes[n] = Outcome::lost;
      } else if (reply->is_bytes()) {
        outcomes[n] = reply->text == name_of(owners[n]) ? Outcome::durable : Outcome::fenced;
      } else {
        unexpected("HGET", *reply);
      }
    }
    return outcomes;
  }

  Result<void> checkpoint(const std::string& path) const override {
    return failure(
        Code::unsupported,
        "checkpoint {}: the rows are in Redis at {}:{}; copy its append-only file, or its "
        "dump after BGSAVE",
        path, address_.host, address_.port);
  }

 private:
  /// A reader that returns the rows in key order. The server returns the rows unordered. So the
  /// first calls of next() each read one page and return an empty piece, until all rows are read. A
  /// scan may return a row twice, but misses none.
  class Reader final : public RowReader {
   public:
    Reader(RedisEngine& engine, JobNumber job)
        : engine_(engine), job_(job), key_(redis_rows_key(engine.address_.prefix, job)) {}

    Result<bool> next(std::vector<Row>& rows, std::size_t most) override {
      if (!complete_) {
        if (Result<void> read = read_page(); !read) return read.error();
        if (cursor_ != "0") return true;
        if (Result<void> counted = finish(); !counted) return counted.error();
      }
      std::size_t bytes = 0;
      for (std::size_t n = 0; n < most && bytes < kPieceBytes && !rows_.empty(); ++n) {
        auto row = rows_.extract(rows_.begin());
        bytes += row.key().size() + row.mapped().size();
        rows.push_back({Row::Kind::put, std::move(row.key()), std::move(row.mapped())});
      }
      return !rows_.empty();
    }

   private:
    /// Reads the next page into rows_, and adapts the size of pages to the size of the rows.
    Result<void> read_page() {
      Result<RedisReply> page = engine_.call(
          {"HSCAN", key_, cursor_, "COUNT", std::to_string(count_)}, limits::kBytesPerJob);
      if (!page) return page.error();
      if (!page->is_array(2) || !page->items[0].is_bytes() || page->items[1].kind != Kind::array ||
          page->items[1].items.size() % 2 != 0) {
        return engine_.unexpected("HSCAN", *page);
      }
      cursor_ = page->items[0].text;
      std::vector<RedisReply>& pairs = page->items[1].items;
      std::size_t bytes = 1;
      for (std::size_t n = 0; n < pairs.size(); n += 2) {
        if (!pairs[n].is_bytes() || !pairs[n + 1].is_bytes()) {
          return engine_.unexpected("HSCAN", *page);
        }
        bytes += pairs[n].text.size() + pairs[n + 1].text.size();
        rows_.insert_or_assign(std::move(pairs[n].text), std::move(pairs[n + 1].text));
      }
      const std::size_t most = std::min<std::size_t>(2 * count_, 1024);
      count_ = std::clamp<std::size_t>(count_ * kPageBytes / bytes, 16, most);
      return {};
    }

    /// Checks that the number of rows that were read equals the number of rows on the server, and
    /// the number of rows in the job's head.
    Result<void> finish() {
      complete_ = true;
      Result<RedisReply> size = engine_.call({"HLEN", key_});
      if (!size) return size.error();
      if (size->kind != Kind::integer) return engine_.unexpected("HLEN", *size);
      if (size->integer != static_cast<std::int64_t>(rows_.size())) {
        return failure(
            Code::unavailable,
            "{}{} changed while it was loaded: read {} rows, the server now has {}; check for "
            "another writer",
            engine_.where(), key_, rows_.size(), size->integer);
      }
      Result<RedisReply> head = engine_.call({"HMGET", engine_.head_key(job_), "rows"});
      if (!head) return head.error();
      std::uint64_t count = rows_.size();
      const bool known = head->is_array(1) && head->items[0].kind != Kind::nil;
      if (!head->is_array(1) || (known && !head->items[0].number(count))) {
        return engine_.unexpected("HMGET", *head);
      }
      if (count == rows_.size()) return {};
      return failure(Code::malformed,
                     "{}{} has {} rows, but {} are durable: rows were erased or evicted; restore "
                     "the server from a copy, or remove the job",
                     engine_.where(), key_, rows_.size(), count);
    }

    RedisEngine& engine_;
    const JobNumber job_;
    const std::string key_;
    std::size_t count_ = 16;
    Bytes cursor_ = "0";
    bool complete_ = false;
    std::map<Bytes, Bytes> rows_;  // read, and not returned yet
  };

  std::string jobs_key() const { return address_.prefix + ":jobs"; }
  std::string head_key(JobNumber job) const { return redis_head_key(address_.prefix, job); }
  std::string name_of(const Ownership& owner) const { return redis_owner(owner.epoch, process_); }
  std::string where() const { return format("redis: {}:{}: ", address_.host, address_.port); }

  Failure lost() const {
    return failure(Code::unavailable,
                   where() + cause_ + "; check the server and open the engine again");
  }
  /// Closes the connection and returns the failure. Commands without a reply may have been applied.
  Failure drop(const std::string& cause) {
    cause_ = cause;
    link_.reset();
    return lost();
  }
  Failure unexpected(const std::string& what, const RedisReply& reply) {
    return drop("unexpected reply to " + what +
                (reply.kind == Kind::error ? ": " + reply.text : std::string()));
  }

  /// Runs one command and returns its reply. Fails if the reply is an error; the connection remains
  /// usable in that case.
  Result<RedisReply> call(std::initializer_list<std::string_view> arguments,
                          std::size_t bytes_max = kReplyBytes) {
    if (!link_) return lost();
    Bytes out;
    append_redis_command(out, arguments);
    Result<void> sent = link_->send(out);
    if (!sent) return drop(sent.error().detail);
    Result<RedisReply> reply = link_->receive(bytes_max);
    if (!reply) return drop(reply.error().detail);
    if (reply->kind != Kind::error) return reply;
    if (reply->is_error("NOAUTH")) {
      return failure(Code::permission_denied,
                     where() + reply->text + "; use redis://:PASSWORD@host:port");
    }
    return failure(reply->is_error("NOPERM") ? Code::permission_denied : Code::unavailable,
                   where() + reply->text);
  }

  /// Logs in if the address has a password. If Redis replies with an error, the failure has only
  /// the text before the first comma: the text after it may quote the arguments, and so the
  /// password.
  Result<void> log_in() {
    if (address_.password.empty()) return {};
    Bytes out;
    if (address_.user.empty()) {
      append_redis_command(out, {"AUTH", address_.password});
    } else {
      append_redis_command(out, {"AUTH", address_.user, address_.password});
    }
    Result<void> sent = link_->send(out);
    if (!sent) return drop(sent.error().detail);
    Result<RedisReply> reply = link_->receive(kReplyBytes);
    if (!reply) return drop(reply.error().detail);
    if (reply->kind == Kind::status) return {};
    if (reply->kind != Kind::error) return unexpected("AUTH", *reply);
    const bool full = reply->is_error("ERR max number of clients");
    return failure(full ? Code::unavailable : Code::permission_denied,
                   where() + reply->text.substr(0, reply->text.find(',')) +
                       (full ? "" : "; check the user and password in the URL of the engine"));
  }

  /// Returns a setting of the server; empty if the server does not return it.
  std::string setting(std::string_view name) {
    Result<RedisReply> reply = call({"CONFIG", "GET", name});
    return reply && reply->is_array(2) ? reply->items[1].text : std::string();
  }

  Result<void> check_format() {
    const std::string key = address_.prefix + ":format";
    if (Result<RedisReply> made = call({"SET", key, kFormat, "NX"}); !made) return made.error();
    Result<RedisReply> found = call({"GET", key});
    if (!found) return found.error();
    if (!found->is_bytes()) return unexpected("GET " + key, *found);
    if (found->text == kFormat) return {};
    return failure(
        Code::version_unsupported,
        "{}the format in {} is {}, this daemon knows format {}; start the daemon that wrote it, or "
        "choose another prefix",
        where(), key, found->text.substr(0, 20), kFormat);
  }

  /// Receives the reply to one call of the commit script. `group` has the batches of that call.
  /// `first` points to the first batch of the commit(). If a batch of `group` is first[n], stores
  /// the outcome of the batch in outcomes[n]. Returns false if the server does not know the script,
  /// and has therefore applied nothing. If the reply is missing or unexpected, closes the
  /// connection, changes no outcome, and returns true.
  bool read_outcomes(const std::vector<const JobBatch*>& group, const JobBatch* first,
                     std::vector<Outcome>& outcomes) {
    Result<RedisReply> reply = link_->receive(kReplyBytes);
    if (!reply) {
      drop(reply.error().detail);
      return true;
    }
    if (reply->is_error("NOSCRIPT")) return false;
    const Bytes& letters = reply->text;
    if (!reply->is_bytes() || letters.size() != group.size() ||
        letters.find_first_not_of("dfl") != Bytes::npos) {
      unexpected("a commit", *reply);
      return true;
    }
    for (std::size_t n = 0; n < group.size(); ++n) {
      outcomes[static_cast<std::size_t>(group[n] - first)] = letters[n] == 'd'   ? Outcome::durable
                                                             : letters[n] == 'l' ? Outcome::lost
                                                                                 : Outcome::fenced;
    }
    return true;
  }

  RedisAddress address_;
  const std::uint64_t process_;
  std::unique_ptr<RedisLink> link_;
  std::string cause_ = "not connected";
  std::string_view durability_ = "none";
  std::string digest_;
};

}  // namespace

Result<std::unique_ptr<Engine>> open_redis_engine(std::string_view rest,
                                                  const OpenOptions& options) {
  Result<RedisAddress> address = parse_redis_address(rest);
  if (!address) return address.error();
  auto engine = std::make_unique<RedisEngine>(
      std::move(*address), options.process != 0 ? options.process : this_process());
  if (Result<void> started = engine->start(); !started) return started.error();
  return std::unique_ptr<Engine>(std::move(engine));
}

}  // namespace c10dd::store
