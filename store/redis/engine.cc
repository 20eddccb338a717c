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
// before it committed them itself; the fleet does, see core::StateWatch. durability() is that of
// the time when the engine was opened; see store/server_watch.h. jobs() may list a job whose first
// claim failed.
#include <algorithm>
#include <map>
#include <string>

#include "protocol/format.h"
#include "protocol/limits.h"
#include "protocol/parse.h"
#include "protocol/utf8.h"
#include "store/engines.h"
#include "store/job_head.h"
#include "store/redis/client.h"

namespace c10dd::store {
namespace {

using Kind = RedisReply::Kind;

constexpr std::size_t kPageBytes = 1024 * 1024;  // wanted size of one page of a scan
/// Older daemons wrote kStoredFormat alone. They claim jobs of other daemons without asking, so
/// they must not open what this daemon has opened.
const std::string kOlderFormat = std::to_string(kStoredFormat);
const std::string kFormat = kOlderFormat + ".1";

/// Returns the outcome for a letter of the commit script's reply.
Outcome outcome_of(char letter) {
  switch (letter) {
    case 'd':
      return Outcome::durable;
    case 'l':
      return Outcome::lost;
    case 'a':
      return Outcome::absent;
    default:
      return Outcome::fenced;
  }
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
  RedisEngine(std::unique_ptr<RedisClient> client, std::uint64_t process)
      : client_(std::move(client)), process_(process) {}

  /// Must be called first. Reads settings, and checks the data format.
  Result<void> start() {
    durability_ = redis_durability(read_redis_settings(*client_));
    Result<RedisReply> digest = client_->call({"SCRIPT", "LOAD", kRedisCommitScript});
    if (!digest) return digest.error();
    if (!digest->is_bytes()) return client_->unexpected("SCRIPT LOAD", *digest);
    digest_ = digest->text;
    return check_format();
  }

  std::string_view name() const override { return "redis"; }
  std::string_view durability() const override { return durability_; }
  bool shared() const override { return true; }

  Result<std::vector<JobNumber>> jobs() override {
    Result<RedisReply> members =
        client_->call({"SMEMBERS", redis_jobs_key(client_->address().prefix)});
    if (!members) return members.error();
    std::vector<JobNumber> numbers(members->items.size());
    bool ok = members->kind == Kind::array;
    for (std::size_t n = 0; n < numbers.size(); ++n) ok &= members->items[n].number(numbers[n]);
    if (!ok) return client_->unexpected("SMEMBERS", *members);
    std::sort(numbers.begin(), numbers.end());
    return numbers;
  }

  using Engine::claim;
  Result<ClaimReply> claim(JobNumber job, const ClaimTerms& terms) override {
    if (job == 0) return open_directory();
    const Holder over = terms.over.value_or(Holder{});
    const std::string owner = terms.over ? redis_owner(over.owner) : "";
    const std::string beats = std::to_string(over.beats);
    const std::string starts = std::to_string(kEpochStarts);
    const std::string& prefix = client_->address().prefix;
    Result<RedisReply> claimed =
        client_->call({"EVAL", kRedisClaimScript, "5", head_key(job), rows_key(job), rows_key(0),
                       redis_fleet_key(prefix), redis_jobs_key(prefix), std::to_string(job),
                       redis_process(process_), terms.state.key, terms.state.value, terms.entry.key,
                       terms.entry.value, owner, beats, starts});
    if (!claimed) return claimed.error();
    if (claimed->is_array(1)) return refused_claim(job, *claimed, claimed->items[0].text);
    if (!claimed->is_array(3)) return client_->unexpected("a claim", *claimed);
    if (claimed->items[0].text == "held") {
      const auto holder = parse_redis_owner(claimed->items[1].text);
      Holder held;
      if (!holder || !claimed->items[2].number(held.beats)) {
        return client_->unexpected("a claim", *claimed);
      }
      held.owner = *holder;
      return ClaimReply(held);
    }
    Claim claim;
    if (!claimed->items[0].number(claim.epoch) || !claimed->items[1].number(claim.revision) ||
        !parse_starts(claimed->items[2].text, claim.starts)) {
      return client_->unexpected("a claim", *claimed);
    }
    return ClaimReply(std::move(claim));
  }

  Result<void> renew(const Ownership& owner) override {
    const Outcome outcome = confirm({&owner, 1}).front();
    if (outcome == Outcome::unknown) return client_->lost();
    return outcome == Outcome::durable ? Result<void>() : not_owner(owner);
  }

  Result<void> release(const Ownership& owner) override {
    Result<RedisReply> released =
        client_->call({"EVAL", kRedisReleaseScript, "1", head_key(owner.job), name_of(owner)});
    if (!released) return released.error();
    if (released->kind != Kind::integer) return client_->unexpected("a release", *released);
    return released->integer == 1 ? Result<void>() : not_owner(owner);
  }

  Result<void> hand_over(const Ownership& owner, std::uint64_t process) override {
    Result<RedisReply> given =
        client_->call({"EVAL", kRedisHandOverScript, "1", head_key(owner.job), name_of(owner),
                       redis_process(process)});
    if (!given) return given.error();
    if (given->kind != Kind::integer) return client_->unexpected("a hand-over", *given);
    return given->integer == 1 ? Result<void>() : not_owner(owner);
  }

  Result<void> forget(JobNumber job, const Precondition& mark) override {
    Result<RedisReply> gone = client_->call(
        {"EVAL", kRedisForgetScript, "4", head_key(job), rows_key(job), rows_key(0),
         redis_jobs_key(client_->address().prefix), std::to_string(job), mark.key, mark.value});
    if (!gone) return gone.error();
    if (gone->kind != Kind::integer) return client_->unexpected("the removal of a job", *gone);
    return {};
  }

  std::unique_ptr<RowReader> read(JobNumber job) override {
    return std::make_unique<Reader>(*this, job);
  }

  Result<std::optional<Changes>> changes(JobNumber job, Revision from) override {
    if (job != 0) return Engine::changes(job, from);
    Result<RedisReply> reply = client_->call(
        {"EVAL", kRedisChangesScript, "3", head_key(0),
         redis_changes_key(client_->address().prefix), rows_key(0), std::to_string(from)},
        limits::kBytesPerJob);
    if (!reply) return reply.error();
    if (reply->is_array(0)) return std::optional<Changes>();
    Changes changes{.row_count = 0};
    bool good = reply->kind == Kind::array && reply->items.size() >= 2 &&
                reply->items[0].number(changes.revision) &&
                reply->items[1].number(*changes.row_count);
    for (std::size_t n = 2; good && n < reply->items.size(); ++n) {
      good = reply->items[n].is_bytes();
      // A change that somebody has damaged is as good as one that was not kept.
      if (good && !decode_change(reply->items[n].text, changes.rows)) {
        return std::optional<Changes>();
      }
    }
    if (!good) return client_->unexpected("the changes of the directory", *reply);
    return std::optional(std::move(changes));
  }

  std::vector<Outcome> commit(std::span<const JobBatch> batches) override {
    return commit_and_confirm(batches, {}).commits;
  }

  std::vector<Outcome> confirm(std::span<const Ownership> owners) override {
    return commit_and_confirm({}, owners).confirms;
  }

  /// Sends all scripts and confirmations in one write. If the server does not know the commit
  /// script (it was started again, or told to forget it), sends the scripts that were not run
  /// again, with their text.
  Outcomes commit_and_confirm(std::span<const JobBatch> batches,
                              std::span<const Ownership> owners) override {
    Outcomes outcomes{std::vector<Outcome>(batches.size(), Outcome::unknown),
                      std::vector<Outcome>(owners.size(), Outcome::unknown)};
    std::map<JobNumber, std::vector<const JobBatch*>> groups;
    for (const JobBatch& batch : batches) groups[batch.job].push_back(&batch);
    Bytes out = encoded("EVALSHA", groups);
    for (const Ownership& owner : owners) {
      append_redis_command(out, {"HGET", head_key(owner.job), "owner"});
    }
    ask(out, groups, batches, owners, outcomes);
    if (!client_->usable()) outcomes.why = client_->lost().detail;
    return outcomes;
  }

  Result<void> checkpoint(const std::string& path) const override {
    return failure(
        Code::unsupported,
        "checkpoint {}: the rows are in Redis at {}:{}; copy its append-only file, or its "
        "dump after BGSAVE",
        path, client_->address().host, client_->address().port);
  }

  std::string_view server() const override { return client_->server(); }

 private:
  /// A reader that returns the rows in key order. The server returns the rows unordered. So the
  /// first calls of next() each read one page and return an empty piece, until all rows are read. A
  /// scan may return a row twice, but misses none.
  class Reader final : public RowReader {
   public:
    Reader(RedisEngine& engine, JobNumber job)
        : engine_(engine), client_(*engine.client_), job_(job), key_(engine.rows_key(job)) {}

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
    std::optional<std::uint64_t> rows() const override {
      return complete_ ? std::optional<std::uint64_t>(found_) : std::nullopt;
    }

   private:
    /// Reads the next page into rows_, and adapts the size of pages to the size of the rows.
    Result<void> read_page() {
      Result<RedisReply> page = client_.call(
          {"HSCAN", key_, cursor_, "COUNT", std::to_string(count_)}, limits::kBytesPerJob);
      if (!page) return page.error();
      if (!page->is_array(2) || !page->items[0].is_bytes() || page->items[1].kind != Kind::array ||
          page->items[1].items.size() % 2 != 0) {
        return client_.unexpected("HSCAN", *page);
      }
      cursor_ = page->items[0].text;
      std::vector<RedisReply>& pairs = page->items[1].items;
      std::size_t bytes = 1;
      for (std::size_t n = 0; n < pairs.size(); n += 2) {
        if (!pairs[n].is_bytes() || !pairs[n + 1].is_bytes()) {
          return client_.unexpected("HSCAN", *page);
        }
        bytes += pairs[n].text.size() + pairs[n + 1].text.size();
        rows_.insert_or_assign(std::move(pairs[n].text), std::move(pairs[n + 1].text));
      }
      const std::size_t most = std::min<std::size_t>(2 * count_, 1024);
      count_ = std::clamp<std::size_t>(count_ * kPageBytes / bytes, 16, most);
      return {};
    }

    /// Checks that the number of rows that were read equals the number of rows on the server, and
    /// the number of rows in the job's head. The directory may change between two pages.
    Result<void> finish() {
      complete_ = true;
      found_ = rows_.size();
      if (job_ == 0) return {};
      Result<RedisReply> size = client_.call({"HLEN", key_});
      if (!size) return size.error();
      if (size->kind != Kind::integer) return client_.unexpected("HLEN", *size);
      if (size->integer != static_cast<std::int64_t>(rows_.size())) {
        return failure(
            Code::unavailable,
            "{}{} changed while it was loaded: read {} rows, the server now has {}; check for "
            "another writer",
            client_.where(), key_, rows_.size(), size->integer);
      }
      Result<RedisReply> head = client_.call({"HMGET", engine_.head_key(job_), "rows"});
      if (!head) return head.error();
      std::uint64_t count = rows_.size();
      const bool known = head->is_array(1) && head->items[0].kind != Kind::nil;
      if (!head->is_array(1) || (known && !head->items[0].number(count))) {
        return client_.unexpected("HMGET", *head);
      }
      if (count == rows_.size()) return {};
      return failure(Code::malformed,
                     "{}{} has {} rows, but must have {}: {}; restore the server from a copy, or "
                     "remove the job",
                     client_.where(), key_, rows_.size(), count,
                     rows_.size() < count ? "rows were erased or evicted"
                                          : "another program added rows, or a commit stopped "
                                            "halfway because the user may not run a command");
    }

    RedisEngine& engine_;
    RedisClient& client_;
    const JobNumber job_;
    const std::string key_;
    std::size_t count_ = 16;
    Bytes cursor_ = "0";
    bool complete_ = false;
    std::size_t found_ = 0;        // number of rows, if complete_
    std::map<Bytes, Bytes> rows_;  // read, and not returned yet
  };

  std::string rows_key(JobNumber job) const {
    return redis_rows_key(client_->address().prefix, job);
  }
  std::string head_key(JobNumber job) const {
    return redis_head_key(client_->address().prefix, job);
  }
  std::string name_of(const Ownership& owner) const {
    return owner.job == 0 ? std::string(kRedisNoOwner) : redis_owner({owner.epoch, process_});
  }

  /// "Claims" job 0, which has no owner.
  Result<ClaimReply> open_directory() {
    Result<RedisReply> opened =
        client_->call({"EVAL", kRedisDirectoryScript, "3", head_key(0), rows_key(0),
                       redis_jobs_key(client_->address().prefix)});
    if (!opened) return opened.error();
    if (opened->text == "head") return refused_claim(0, *opened, "head");
    Claim claim;
    if (!opened->number(claim.revision)) return client_->unexpected("a claim", *opened);
    return ClaimReply(std::move(claim));
  }

  Result<ClaimReply> refused_claim(JobNumber job, const RedisReply& reply, std::string_view why) {
    if (why == "gone") return ClaimReply(Gone{});
    if (why == "precondition") return precondition_failed(job);
    if (why != "head") return client_->unexpected("a claim", reply);
    return failure(
        Code::malformed,
        "{}job {} was claimed before, but its key {} is missing: it was erased or evicted; "
        "restore the server from a copy, or remove the job",
        client_->where(), job, head_key(job));
  }

  Result<void> check_format() {
    const std::string key = client_->address().prefix + ":format";
    Result<RedisReply> made = client_->call({"SET", key, kFormat, "NX"});
    if (!made) return made.error();
    if (made->kind != Kind::status && made->kind != Kind::nil) {
      return client_->unexpected("SET " + key, *made);
    }
    Result<RedisReply> found = client_->call({"GET", key});
    if (!found) return found.error();
    if (!found->is_bytes()) return client_->unexpected("GET " + key, *found);
    if (found->text == kFormat) return {};
    if (found->text == kOlderFormat) {
      const Result<RedisReply> raised = client_->call({"SET", key, kFormat});
      if (!raised) return raised.error();
      return raised->kind == Kind::status ? Result<void>()
                                          : client_->unexpected("SET " + key, *raised);
    }
    return failure(Code::version_unsupported,
                   "{}the format in {} is {}, this daemon knows format {}; start the daemon "
                   "version that wrote it, or choose another prefix",
                   client_->where(), key, foreign_text(found->text.substr(0, 20)), kFormat);
  }

  /// Encodes a call of the commit script for each job.
  Bytes encoded(std::string_view verb,
                const std::map<JobNumber, std::vector<const JobBatch*>>& groups) const {
    Bytes out;
    for (const auto& [job, group] : groups) {
      append_redis_commit(out, verb, verb == "EVAL" ? kRedisCommitScript : digest_,
                          client_->address().prefix, process_, group);
    }
    return out;
  }

  /// Sends `out`, the calls of `groups` and the confirmations, and receives the outcomes.
  void ask(const Bytes& out, std::map<JobNumber, std::vector<const JobBatch*>>& groups,
           std::span<const JobBatch> batches, std::span<const Ownership> owners,
           Outcomes& outcomes) {
    if (!client_->send(out)) return;
    read_outcomes(groups, batches.data(), outcomes.commits);
    for (std::size_t n = 0; n < owners.size() && client_->usable(); ++n) {
      outcomes.confirms[n] = read_confirmation(owners[n]);
    }
    if (groups.empty() || !client_->send(encoded("EVAL", groups))) return;
    read_outcomes(groups, batches.data(), outcomes.commits);
    if (!groups.empty()) client_->drop("the server does not run the commit script");
  }

  /// Receives the replies to the calls of the commit script, and removes the jobs whose call was
  /// run. `first` points to the first batch of the commit.
  void read_outcomes(std::map<JobNumber, std::vector<const JobBatch*>>& groups,
                     const JobBatch* first, std::vector<Outcome>& outcomes) {
    for (auto at = groups.begin(); at != groups.end() && client_->usable();) {
      at = read_outcomes(at->second, first, outcomes) ? groups.erase(at) : std::next(at);
    }
  }

  /// Receives the reply to one call of the commit script. `group` has the batches of that call.
  /// `first` points to the first batch of the commit(). If a batch of `group` is first[n], stores
  /// the outcome of the batch in outcomes[n]. Returns false if the server does not know the script,
  /// and has therefore applied nothing. If the reply is missing or unexpected, closes the
  /// connection, changes no outcome, and returns true.
  bool read_outcomes(const std::vector<const JobBatch*>& group, const JobBatch* first,
                     std::vector<Outcome>& outcomes) {
    Result<RedisReply> reply = client_->receive();
    if (!reply) return true;
    if (reply->is_error("NOSCRIPT")) return false;
    const Bytes& letters = reply->text;
    if (!reply->is_bytes() || letters.size() != group.size() ||
        letters.find_first_not_of("dfla") != Bytes::npos) {
      client_->unexpected("a commit", *reply);
      return true;
    }
    for (std::size_t n = 0; n < group.size(); ++n) {
      outcomes[static_cast<std::size_t>(group[n] - first)] = outcome_of(letters[n]);
    }
    return true;
  }

  /// Receives the reply to one confirmation.
  Outcome read_confirmation(const Ownership& owner) {
    Result<RedisReply> reply = client_->receive();
    if (!reply) return Outcome::unknown;
    if (reply->kind == Kind::nil) return Outcome::absent;
    if (reply->is_bytes()) {
      return reply->text == name_of(owner) ? Outcome::durable : Outcome::fenced;
    }
    client_->unexpected("HGET", *reply);
    return Outcome::unknown;
  }

  std::unique_ptr<RedisClient> client_;
  const std::uint64_t process_;
  std::string_view durability_ = "none";
  std::string digest_;
};

}  // namespace

namespace {

Result<std::unique_ptr<Engine>> open_at(Result<RedisAddress> address, const OpenOptions& options) {
  if (!address) return address.error();
  Result<std::unique_ptr<RedisClient>> client = RedisClient::open(std::move(*address));
  if (!client) return client.error();
  auto engine = std::make_unique<RedisEngine>(
      std::move(*client), options.process != 0 ? options.process : this_process());
  if (Result<void> started = engine->start(); !started) return started.error();
  return std::unique_ptr<Engine>(std::move(engine));
}

}  // namespace

Result<std::unique_ptr<Engine>> open_redis_engine(std::string_view url,
                                                  const OpenOptions& options) {
  Result<RedisAddress> address = parse_redis_url(url);
  if (address) address->ca_file = options.redis_ca;
  return open_at(std::move(address), options);
}

}  // namespace c10dd::store
