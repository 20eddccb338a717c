// SPDX-License-Identifier: Apache-2.0
#include "daemon/access.h"

#include <algorithm>
#include <array>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <chrono>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <utility>

#include "daemon/access_reader.h"
#include "daemon/config/authenticator.h"
#include "daemon/net/handshakes.h"
#include "daemon/net/link_failures.h"
#include "daemon/net/rechecks.h"
#include "daemon/net/refusal_log.h"
#include "daemon/net/tls_stream.h"
#include "daemon/shard/caused_log.h"
#include "daemon/shard/log_line.h"
#include "protocol/address.h"
#include "protocol/format.h"
#include "protocol/limits.h"
#include "protocol/utf8.h"
#include "protocol/wording.h"

namespace c10dd::daemon {
namespace {

constexpr std::chrono::seconds kLookEvery{5};
constexpr std::chrono::seconds kRecheckEvery{1};
constexpr std::chrono::days kRenewalDue{14};
constexpr std::chrono::seconds kSlowFiles{10};
// While ca.crt has a former CA, all sessions are asked for their credential once in this time, and
// a principal that has shown a token of that CA counts for this time.
constexpr std::chrono::seconds kFormerCaEvery{60};
constexpr std::chrono::seconds kFormerCaKept{150};
constexpr std::size_t kAdmittedKept = 16'384;
constexpr std::size_t kLeftOutLogged = 16;  // of the keys that cannot be used

std::int64_t unix_seconds(tls::WallTime time) { return time.time_since_epoch().count(); }

unsigned handshake_threads() { return std::clamp(std::thread::hardware_concurrency() / 2, 1U, 4U); }

/// Logs who comes: once for each principal, job and address. Thread-safe.
class AdmittedLog {
 public:
  void note(const std::string& principal, const std::string& job, const std::string& address) {
    {
      const std::lock_guard lock(mutex_);
      if (seen_.size() >= kAdmittedKept) seen_.clear();
      if (!seen_.emplace(principal, job, address).second) return;
    }
    // Over HTTP a principal comes to the daemon, not to a job.
    log_caused(principal, LogLevel::info, "event=admitted principal={}{} address={}",
               Sentence{principal}, OptionalField{"job", printable(job, limits::kNameBytes)},
               address);
  }

 private:
  std::mutex mutex_;
  std::set<std::tuple<std::string, std::string, std::string>> seen_;
};

/// Returns the stream if it is encrypted, otherwise null.
const TlsStream* encrypted(const Stream& stream) { return dynamic_cast<const TlsStream*>(&stream); }

class TlsAccess final : public Access {
 public:
  TlsAccess(Loop& loop, const Options& options, ReadAccess first)
      : options_(options),
        read_(std::move(first)),
        authenticator_(read_.rules, wall_now),
        handshakes_(loop, handshake_threads()),
        reader_(loop),
        timer_(loop) {}

  void serve(SessionContext& context, Metrics& metrics,
             const std::vector<std::string>& addresses) override;
  void reload() override;
  std::string note() const override;
  void stop() override { handshakes_.stop(); }

 private:
  struct Shown {
    std::optional<tls::Certificate> certificate;  ///< nothing: none, or one that is not good
    std::string refused;                          ///< why it is not good
  };

  Shown shown_on(const tls::Channel& channel) const;
  bool serves_plain() const { return options_.allow_insecure_listen; }
  void decrypt(std::shared_ptr<Stream> stream, std::function<void(std::shared_ptr<Stream>)> then);
  Result<core::Caller> caller(const std::string& credential, const std::string& job,
                              const Stream& stream);
  std::optional<Result<core::JobRoles>> roles(std::string_view token, const Stream& stream);
  void look();
  asio::awaitable<Result<std::shared_ptr<Stream>>> encrypt(std::shared_ptr<Stream> stream,
                                                           std::string host);
  void read_files(std::vector<std::string> known);
  void take(const std::string& state, Result<ReadAccess> next);
  void tell_of_files();
  void look_for_former_ca();
  std::string former_ca() const;
  std::string missing_hosts() const;
  std::string left_out() const;

  const Options& options_;
  ReadAccess read_;
  std::string refused_state_;  // of files that are not good
  std::string refused_why_;    // empty: those in force are the newest
  Authenticator authenticator_;
  Handshakes handshakes_;
  Rechecks rechecks_;
  AdmittedLog admitted_;
  LinkFailures links_;
  Metrics* metrics_ = nullptr;
  std::vector<std::string> hosts_;  // by which other daemons reach this one
  AccessReader reader_;
  asio::steady_timer timer_;
  unsigned turns_ = 0;
};

void TlsAccess::serve(SessionContext& context, Metrics& metrics,
                      const std::vector<std::string>& addresses) {
  metrics_ = &metrics;
  for (const std::string& address : addresses) {
    hosts_.emplace_back(split_address(address)->host);
  }
  tell_of_files();
  context.serves_plain = serves_plain();
  context.rechecks = &rechecks_;
  context.decrypt = [this](std::shared_ptr<Stream> stream,
                           std::function<void(std::shared_ptr<Stream>)> then) {
    decrypt(std::move(stream), std::move(then));
  };
  context.caller_of = [this](const std::string& credential, const std::string& job,
                             const Stream& stream) { return caller(credential, job, stream); };
  context.count_caller = [this](const Result<core::Caller>& found, const Stream& stream) {
    if (encrypted(stream) != nullptr) {
      metrics_->authenticated(found ? Code::ok : found.error().code);
    }
  };
  context.note_admitted = [this](const std::string& principal, const std::string& job,
                                 const Stream& stream) {
    admitted_.note(principal, job, stream.address().to_string());
  };
  context.roles_of = [this](std::string_view token, const Stream& stream) {
    return roles(token, stream);
  };
  context.encrypt = [this](std::shared_ptr<Stream> stream, std::string host) {
    return encrypt(std::move(stream), std::move(host));
  };
  look();
}

void TlsAccess::decrypt(std::shared_ptr<Stream> stream,
                        std::function<void(std::shared_ptr<Stream>)> then) {
  const std::string peer = stream->peer();
  handshakes_.begin(std::move(stream), authenticator_.access()->server(),
                    [this, peer, then = std::move(then)](Handshakes::Result result) {
                      if (result.stream) return then(std::move(result.stream));
                      metrics_->authenticated(std::nullopt);
                      metrics_->connection_closed(Protocol::unknown, "tls");
                      log_refused("", peer, result.failed);
                    });
}

/// Encrypts a connection to another daemon, and remembers why that has failed.
asio::awaitable<Result<std::shared_ptr<Stream>>> TlsAccess::encrypt(std::shared_ptr<Stream> stream,
                                                                    std::string host) {
  const std::string address = stream->peer();
  auto made = co_await c10dd::daemon::encrypt(
      std::move(stream), authenticator_.access()->to_daemons(), std::move(host));
  if (made) {
    links_.succeeded(address);
  } else {
    links_.failed(address, made.error().detail, std::chrono::steady_clock::now());
  }
  co_return made;
}

/// Returns what a client has shown in the handshake, by the rules that are in force now.
TlsAccess::Shown TlsAccess::shown_on(const tls::Channel& channel) const {
  Shown shown{channel.peer(), channel.peer_refused()};
  if (!shown.certificate || authenticator_.access()->has_ca(channel.peer_ca())) return shown;
  return {
      std::nullopt,
      "the CA that has signed the certificate of this client is no longer in the ca.crt of this "
      "daemon; use a certificate of its CA"};
}

/// Says who sends a credential. Whoever is not encrypted is not asked, if he may come at all.
Result<core::Caller> TlsAccess::caller(const std::string& credential, const std::string& job,
                                       const Stream& stream) {
  const TlsStream* const is = encrypted(stream);
  if (is == nullptr) return core::Caller{};
  const Shown shown = shown_on(is->channel());
  return authenticator_.caller(credential, job, shown.certificate, shown.refused);
}

std::optional<Result<core::JobRoles>> TlsAccess::roles(std::string_view token,
                                                       const Stream& stream) {
  const TlsStream* const is = encrypted(stream);
  if (is == nullptr) return std::nullopt;
  const Shown shown = shown_on(is->channel());
  Result<Principal> found = authenticator_.principal(token, shown.certificate, shown.refused);
  if (!found) return Result<core::JobRoles>(found.error());
  metrics_->authenticated(Code::ok);
  if (found->roles.anywhere() != core::Role::none) {
    admitted_.note(found->name, "", stream.address().to_string());
  }
  return Result<core::JobRoles>(std::move(found->roles));
}

/// Looks at the clock and, less often, at the files.
void TlsAccess::look() {
  rechecks_.look(std::chrono::steady_clock::now());
  if (++turns_ % (kLookEvery / kRecheckEvery) == 0) {
    read_files({read_.state, refused_state_});
  }
  if (turns_ % (kFormerCaEvery / kRecheckEvery) == 0 && read_.rules->has_former_ca()) {
    look_for_former_ca();
  }
  timer_.expires_after(kRecheckEvery);
  timer_.async_wait([this](const ErrorCode& cancelled) {
    if (!cancelled) look();
  });
}

void TlsAccess::reload() { read_files({}); }

/// Reads the files, unless their state is one of `known`.
void TlsAccess::read_files(std::vector<std::string> known) {
  reader_.read(
      read_.files, std::move(known),
      [this](const std::string& state, Result<ReadAccess> next) { take(state, std::move(next)); });
}

void TlsAccess::take(const std::string& state, Result<ReadAccess> next) {
  metrics_->access_reloaded(next.has_value());
  if (!next) {
    refused_state_ = state;
    refused_why_ = next.error().detail;
    log_warn("event=access_reloaded result=refused detail={}",
             Sentence{"the files in force stay: " + printable(refused_why_, 512)});
    return;
  }
  read_ = std::move(*next);
  refused_state_.clear();
  refused_why_.clear();
  authenticator_.replace(read_.rules);
  rechecks_.all();
  log_info("event=access_reloaded result=ok certificate_ends={}",
           unix_seconds(read_.rules->certificate().ends()));
  tell_of_files();
}

/// Tells the metrics when the newest certificate ends, and the log what is wrong with it and with
/// the keys of other issuers.
void TlsAccess::tell_of_files() {
  std::size_t left = kLeftOutLogged;
  for (const std::string& one : read_.rules->left_out()) {
    if (left-- == 0) break;
    log_warn("event=key_left_out detail={}", Sentence{one});
  }
  metrics_->certificate_ends(unix_seconds(read_.rules->certificate().ends()));
  const std::string missing = missing_hosts();
  if (!missing.empty()) log_warn("event=certificate_lacks_host detail={}", Sentence{missing});
}

/// Logs who has shown a token of a former CA, and asks all sessions again.
void TlsAccess::look_for_former_ca() {
  constexpr std::size_t kNamed = 8;
  const std::vector<std::string> all = authenticator_.with_former_ca(wall_now() - kFormerCaKept);
  rechecks_.all();
  if (all.empty()) return;
  std::string names;
  for (std::size_t i = 0; i < std::min(all.size(), kNamed); ++i) {
    names += (i == 0 ? "" : ", ") + printable(all[i], limits::kNameShown);
  }
  if (all.size() > kNamed) names += format(" and {} more", all.size() - kNamed);
  log_info("event=former_ca principals={} detail={}", all.size(),
           Sentence{"give new tokens to " + names});
}

/// Says whether a former CA of ca.crt is still needed; empty if there is none.
std::string TlsAccess::former_ca() const {
  if (!read_.rules->has_former_ca()) return {};
  const tls::WallTime now = wall_now();
  const std::size_t count = authenticator_.with_former_ca(now - kFormerCaKept).size();
  if (count > 0) {
    return format(
        "{} principals show tokens of a former CA in ca.crt; give them new ones before you take it "
        "out (event=former_ca in the log names them)",
        count);
  }
  const auto since = std::min<std::chrono::seconds>(now - authenticator_.replaced(), kFormerCaKept);
  return format("ca.crt has a former CA, of which no token was shown for {}; take it out after {}",
                human(since), human(kFormerCaKept));
}

/// Says by which names other daemons reach this one, but do not believe its certificate; empty if
/// by none.
std::string TlsAccess::missing_hosts() const {
  std::string names;
  for (const std::string& host : hosts_) {
    if (read_.rules->certificate().is_for(host)) continue;
    names += (names.empty() ? "" : ",") + printable(host, limits::kNameShown);
  }
  if (names.empty()) return {};
  return format(
      "the certificate of this daemon is not for {}, so other daemons cannot pass requests "
      "on to it; issue one that is (c10ddctl ca daemon --host {})",
      names, names);
}

/// Names a key that cannot be used, and counts the others; empty if there is none.
std::string TlsAccess::left_out() const {
  const std::vector<std::string>& all = read_.rules->left_out();
  if (all.empty()) return {};
  if (all.size() == 1) return all.front();
  return format("{} (and {} more; event=key_left_out in the log names them)", all.front(),
                all.size() - 1);
}

std::string TlsAccess::note() const {
  std::string text;
  const auto add = [&](const std::string& more) { text += (text.empty() ? "" : "; ") + more; };
  if (!refused_why_.empty()) {
    add("the changed files of --tls and --grants are not in force; event=access_reloaded in the "
        "log says why");
  }
  if (const Duration waited = reader_.waited(); waited > kSlowFiles) {
    add(format(
        "the files of --tls and --grants could not be looked at for {}; check their file system",
        human(waited)));
  }
  if (const std::string missing = missing_hosts(); !missing.empty()) add(missing);
  if (const std::string keys = left_out(); !keys.empty()) add(keys);
  if (const std::string link = links_.text(std::chrono::steady_clock::now()); !link.empty()) {
    add(link);
  }
  if (const std::string former = former_ca(); !former.empty()) add(former);
  const auto left = read_.rules->certificate().ends() - wall_now();
  if (left <= std::chrono::seconds(0)) {
    add("the certificate of this daemon has expired; renew it");
  } else if (left < kRenewalDue) {
    add(format("the certificate of this daemon expires in {}; renew it", human(left)));
  }
  if (serves_plain()) {
    add("connections without TLS are served, too, and may do everything "
        "(--allow-insecure-listen)");
  }
  return text;
}

}  // namespace

Result<std::unique_ptr<Access>> open_access(Loop& loop, const Options& options) {
  if (options.tls.empty()) return std::unique_ptr<Access>();
  tls::keep_until_exit();  // the thread of a reading may outlive main()
  Result<ReadAccess> first = read_access(AccessFiles(options.tls, options.grants));
  if (!first) {
    const bool of_grants =
        !options.grants.empty() && first.error().detail.find(options.grants) != std::string::npos;
    return failure(Code::invalid_argument, "--{}: {}", of_grants ? "grants" : "tls",
                   first.error().detail);
  }
  return std::make_unique<TlsAccess>(loop, options, std::move(*first));
}

Result<Bytes> ask_over_tls(const Options& options, asio::ip::tcp::socket& connected,
                           std::string_view request) {
  const Result<ReadAccess> files = read_access(AccessFiles(options.tls, options.grants));
  if (!files) return failure(Code::invalid_argument, "--tls: {}", files.error().detail);
  tls::Channel channel(files->rules->to_own_daemon());
  std::array<char, 16 * 1024> buffer;
  Bytes reply;
  bool sent = false;
  while (true) {
    const Result<bool> open = channel.shake_hands();
    if (!open) return open.error();
    while (*open && !sent && !request.empty()) {
      const Result<std::size_t> taken = channel.write(request);
      if (!taken) return taken.error();
      request.remove_prefix(*taken);
    }
    sent = *open;
    ErrorCode failed;
    const std::string_view out = channel.outgoing();
    asio::write(connected, asio::buffer(out), failed);
    if (failed) return failure(Code::unavailable, failed.message());
    channel.sent(out.size());
    while (*open) {
      const Result<std::size_t> plain = channel.read(buffer);
      if (!plain) return plain.error();
      if (*plain == 0) break;
      reply.append(buffer.data(), *plain);
    }
    if (channel.has_ended()) return reply;
    const std::size_t n = connected.read_some(asio::buffer(buffer), failed);
    if (failed == asio::error::eof && !reply.empty())
      return reply;  // HTTP says whether it is whole
    if (failed) return failure(Code::unavailable, failed.message());
    channel.receive({buffer.data(), n});
  }
}

}  // namespace c10dd::daemon
