// SPDX-License-Identifier: Apache-2.0
// libc10dd.so.1 against the real daemon: what a caller in another language may do wrong, the calls
// that it ends, and handles that are used after their end.
#include <c10dd.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "protocol/codes.h"
#include "tests/integration/daemon_process.h"

namespace c10dd::test {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono_literals::operator""ms;

c10dd_view view(std::string_view text) { return {text.data(), text.size()}; }

/// The error of a call, and its text as a string.
struct Failed : c10dd_error {
  Failed() : c10dd_error C10DD_ERROR_INIT {}
  ~Failed() { c10dd_error_clear(this); }
  Failed(const Failed&) = delete;
  std::string what() const { return text == nullptr ? "" : text; }
};

/// How long a call may take, and a function that it asks.
struct Asking : c10dd_call {
  explicit Asking(std::function<bool()> go = {}, std::int64_t timeout = -1)
      : c10dd_call C10DD_CALL_INIT, goes_on(std::move(go)) {  // NOLINT(*-uninitialized*)
    timeout_ns = timeout;
    context = this;
    if (goes_on) {
      go_on = [](void* self) { return static_cast<Asking*>(self)->goes_on() ? 1 : 0; };
    }
  }
  std::function<bool()> goes_on;
};

class CInterface : public ::testing::Test {
 protected:
  void SetUp() override {
    daemon_.start();
    client_ = connect("c");
  }
  void TearDown() override { c10dd_client_close(client_, nullptr); }

  std::string url(const std::string& job) const {
    return "c10dd://" + daemon_.address() + "/" + job;
  }
  c10dd_client* connect(const std::string& job) {
    c10dd_client* client = nullptr;
    Failed failed;
    EXPECT_EQ(c10dd_connect(url(job).c_str(), nullptr, nullptr, &client, &failed), C10DD_OK)
        << failed.what();
    return client;
  }
  std::string get(const char* key) {
    c10dd_bytes value{};
    Failed failed;
    const Asking now({}, 0);
    if (c10dd_get(client_, view(key), &now, &value, nullptr, &failed) != C10DD_OK) {
      return failed.what();
    }
    std::string copied(value.data, value.size);
    EXPECT_EQ(value.data[value.size], '\0');
    c10dd_free(value.data);
    return copied;
  }

  DaemonProcess daemon_{"memory:"};
  c10dd_client* client_ = nullptr;
};

TEST_F(CInterface, HasTheCodesOfTheProtocol) {
  for (const CodeInfo& info : kCodes) {
    EXPECT_EQ(info.name, c10dd_code_name(static_cast<c10dd_code>(info.code)));
  }
  EXPECT_STREQ(c10dd_code_name(-1), "internal");
  EXPECT_STREQ(c10dd_code_name(4711), "internal");
  EXPECT_EQ(static_cast<c10dd_code>(std::size(kCodes)) - 1, C10DD_WORK_FINISHED);
  EXPECT_EQ(c10dd_abi_version(), C10DD_ABI_VERSION);
}

TEST_F(CInterface, KeepsBytesAndRevisions) {
  using std::string_literals::operator""s;
  std::uint64_t revision = 0;
  ASSERT_EQ(c10dd_set(client_, view("k"), view("a\0b"s), nullptr, nullptr, &revision, nullptr), 0);
  EXPECT_EQ(revision, 1u);
  EXPECT_EQ(get("k"), "a\0b"s);
  ASSERT_EQ(c10dd_set(client_, view("empty"), {nullptr, 0}, nullptr, nullptr, nullptr, nullptr), 0);
  EXPECT_EQ(get("empty"), "");
  EXPECT_EQ(get("absent"), "1 of 1 keys not found: absent");
  const c10dd_view keys[] = {view("k"), view("empty")};
  c10dd_list values{};
  ASSERT_EQ(c10dd_multi_get(client_, keys, 2, nullptr, &values, nullptr), 0);
  ASSERT_EQ(values.count, 2u);
  EXPECT_EQ(values.items[0].size, 3u);
  EXPECT_EQ(values.items[1].size, 0u);
  c10dd_free(const_cast<c10dd_view*>(values.items));
}

TEST_F(CInterface, NamesWhatTheCallerDidWrong) {
  const auto said = [](c10dd_code code, const Failed& failed) {
    return std::string(c10dd_code_name(code)) + ": " + failed.what();
  };
  Failed failed;
  std::int64_t sum = 0;
  EXPECT_EQ(said(c10dd_add(nullptr, view("n"), 1, nullptr, &sum, &failed), failed),
            "invalid_argument: the client is null");
  EXPECT_EQ(said(c10dd_add(client_, {nullptr, 3}, 1, nullptr, &sum, &failed), failed),
            "invalid_argument: the key is null");
  EXPECT_EQ(said(c10dd_connect(url("c").c_str(), nullptr, nullptr, nullptr, &failed), failed),
            "invalid_argument: the output pointer for the client is null");
  c10dd_call call = C10DD_CALL_INIT;
  call.size = 8;
  EXPECT_EQ(said(c10dd_add(client_, view("n"), 1, &call, &sum, &failed), failed),
            "invalid_argument: the size field of the call is 8, but the struct has 32 "
            "bytes: initialise the struct with its macro, for example C10DD_CALL_INIT");
  struct Later {
    c10dd_call call = C10DD_CALL_INIT;
    std::int64_t added = 1;
  } later;
  later.call.size = sizeof later;
  EXPECT_EQ(said(c10dd_add(client_, view("n"), 1, &later.call, &sum, &failed), failed),
            "unsupported: the struct of the call has 40 bytes and sets fields that version " +
                std::string(c10dd_version()) +
                " of this library (32 bytes) does not have: update libc10dd.so.1");
  later.added = 0;
  EXPECT_EQ(c10dd_add(client_, view("n"), 1, &later.call, &sum, &failed), C10DD_OK);
  call = C10DD_CALL_INIT;
  call.timeout_ns = -2;
  EXPECT_EQ(said(c10dd_add(client_, view("n"), 1, &call, &sum, &failed), failed),
            "invalid_argument: the time-out is -2 ns: give 0 or more, or -1 for the default");
  EXPECT_EQ(said(c10dd_watch_close(reinterpret_cast<c10dd_watch*>(client_), &failed), failed),
            "invalid_argument: this handle is not the handle of a watch");
  EXPECT_EQ(get("n"), "1");  // nothing was done by the others
  c10dd_error unset{};
  EXPECT_EQ(c10dd_add(client_, view("n"), 1, nullptr, &sum, &unset), C10DD_INVALID_ARGUMENT);
  c10dd_action odd{};
  odd.kind = 9;
  c10dd_transaction_result result{};
  EXPECT_EQ(said(c10dd_transact(client_, nullptr, 0, &odd, 1, nullptr, &result, &failed), failed),
            "invalid_argument: the kind of an action is 9: give a value of c10dd_action_kind, 0 to "
            "4");
}

TEST_F(CInterface, EndsACallWhoseCallerDoesNotGoOn) {
  const std::thread::id self = std::this_thread::get_id();
  int asked = 0;
  const Asking call([&] {
    EXPECT_EQ(std::this_thread::get_id(), self);
    return ++asked < 3;
  });
  Failed failed;
  c10dd_bytes value{};
  const auto begin = Clock::now();
  EXPECT_EQ(c10dd_get(client_, view("never"), &call, &value, nullptr, &failed), C10DD_ABORTED);
  EXPECT_GE(Clock::now() - begin, 300ms);
  EXPECT_EQ(asked, 3);
  EXPECT_EQ(failed.what(), "the caller ended the call before the reply arrived");
  std::int64_t sum = 0;
  EXPECT_EQ(c10dd_add(client_, view("n"), 5, &call, &sum, &failed), C10DD_OK) << failed.what();
  EXPECT_EQ(asked, 3) << "a call that does not block asks nobody";
  // It can end the attempt to connect, too.
  c10dd_client* none = nullptr;
  EXPECT_EQ(c10dd_connect("c10dd://127.0.0.1:1/x", nullptr, &call, &none, &failed), C10DD_ABORTED);
  EXPECT_EQ(none, nullptr);
}

TEST_F(CInterface, TellsWhoIsMissing) {
  c10dd_connect_options options = C10DD_CONNECT_OPTIONS_INIT;
  options.rank = 0;
  options.world_size = 2;
  c10dd_client* ranked = nullptr;
  ASSERT_EQ(c10dd_connect(url("m").c_str(), &options, nullptr, &ranked, nullptr), C10DD_OK);
  const Asking soon({}, 200'000'000);
  Failed failed;
  EXPECT_EQ(c10dd_barrier(ranked, view("start"), nullptr, &soon, &failed), C10DD_TIMED_OUT);
  ASSERT_EQ(failed.missing_count, 1u) << failed.what();
  EXPECT_EQ(failed.missing[0].rank, 1u);
  EXPECT_STREQ(failed.missing[0].cause, "never_connected");
  c10dd_client_close(ranked, nullptr);
}

TEST_F(CInterface, AClosedHandleIsAnErrorAndItsCallsEnd) {
  c10dd_client* other = connect("c");
  std::atomic<c10dd_code> ended{C10DD_OK};
  std::thread waits([&] {
    c10dd_bytes value{};
    ended = c10dd_get(other, view("never"), nullptr, &value, nullptr, nullptr);
  });
  std::this_thread::sleep_for(100ms);
  EXPECT_EQ(c10dd_client_close(other, nullptr), C10DD_OK);
  waits.join();
  EXPECT_EQ(ended, C10DD_CLOSED);
  Failed failed;
  EXPECT_EQ(c10dd_client_close(other, &failed), C10DD_CLOSED);
  EXPECT_EQ(failed.what(), "the client was closed");
  std::uint64_t count = 0;
  EXPECT_EQ(c10dd_count(other, view(""), nullptr, &count, nullptr), C10DD_CLOSED);
}

TEST_F(CInterface, AForkedChildIsToldSo) {
  const pid_t child = ::fork();
  if (child == 0) {
    std::uint64_t count = 0;
    const bool told = c10dd_count(client_, view(""), nullptr, &count, nullptr) == C10DD_FORKED &&
                      c10dd_client_close(client_, nullptr) == C10DD_FORKED;
    c10dd_client* own = nullptr;
    const bool again = c10dd_connect(url("c").c_str(), nullptr, nullptr, &own, nullptr) == 0 &&
                       c10dd_count(own, view(""), nullptr, &count, nullptr) == 0;
    ::_exit(told && again ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  std::uint64_t count = 0;
  EXPECT_EQ(c10dd_count(client_, view(""), nullptr, &count, nullptr), C10DD_OK);
}

TEST_F(CInterface, WatchesChanges) {
  c10dd_watch* watch = nullptr;
  ASSERT_EQ(c10dd_watch_open(client_, view("w/"), 1, 0, nullptr, &watch, nullptr), C10DD_OK);
  ASSERT_EQ(c10dd_set(client_, view("w/1"), view("v"), nullptr, nullptr, nullptr, nullptr), 0);
  int existed = 0;
  ASSERT_EQ(c10dd_remove(client_, view("w/1"), nullptr, &existed, nullptr), C10DD_OK);
  EXPECT_EQ(existed, 1);
  std::string seen;
  while (seen.size() < 8) {
    c10dd_changes changes{};
    ASSERT_EQ(c10dd_watch_next(watch, nullptr, &changes, nullptr), C10DD_OK);
    for (std::size_t i = 0; i < changes.count; ++i) {
      const c10dd_change& one = changes.items[i];
      seen.append(static_cast<const char*>(one.key.data), one.key.size);
      seen += one.removed ? "-" : "+";
    }
    c10dd_free(const_cast<c10dd_change*>(changes.items));
  }
  EXPECT_EQ(seen, "w/1+w/1-");
  // Two threads at once: one waits, the other is refused, and the end of the watch ends the first.
  std::atomic<c10dd_code> ended{C10DD_OK};
  std::thread waits([&] {
    c10dd_changes changes{};
    ended = c10dd_watch_next(watch, nullptr, &changes, nullptr);
  });
  std::this_thread::sleep_for(100ms);
  c10dd_changes changes{};
  EXPECT_EQ(c10dd_watch_next(watch, nullptr, &changes, nullptr), C10DD_INVALID_ARGUMENT);
  EXPECT_EQ(c10dd_watch_close(watch, nullptr), C10DD_OK);
  waits.join();
  EXPECT_EQ(ended, C10DD_ABORTED);
}

TEST_F(CInterface, EightThreadsShareAClientAndMakeOthers) {
  constexpr int kThreads = 8;
  constexpr int kEach = 100;
  std::atomic<int> failures{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < kEach; ++i) {
        std::int64_t sum = 0;
        const Asking call([] { return true; });
        failures += c10dd_add(client_, view("n"), 1, &call, &sum, nullptr) != C10DD_OK;
        c10dd_client* other = nullptr;
        if (i % 25 == 0)
          failures += c10dd_connect(url("o").c_str(), nullptr, nullptr, &other, nullptr);
        if (other != nullptr) failures += c10dd_client_close(other, nullptr);
        c10dd_bytes value{};
        failures += c10dd_get(client_, view("n"), &call, &value, nullptr, nullptr) != C10DD_OK;
        c10dd_free(value.data);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures, 0);
  EXPECT_EQ(get("n"), std::to_string(kThreads * kEach));
}

TEST_F(CInterface, AMembershipTellsItsChanges) {
  c10dd_membership* member = nullptr;
  Failed failed;
  c10dd_rendezvous_options options = C10DD_RENDEZVOUS_OPTIONS_INIT;
  const c10dd_label label{"gpu", "h100"};
  options.labels = &label;
  options.label_count = 1;
  options.max = 2;
  options.last_call_ns = 0;
  ASSERT_EQ(c10dd_rendezvous(client_, &options, nullptr, &member, &failed), 0) << failed.what();
  c10dd_members members{};
  ASSERT_EQ(c10dd_membership_members(member, nullptr, &members, nullptr), C10DD_OK);
  ASSERT_EQ(members.count, 1u);
  EXPECT_STREQ(members.items[0].labels[0].value, "h100");
  c10dd_free(const_cast<c10dd_member*>(members.items));
  c10dd_group_state* state = nullptr;
  ASSERT_EQ(c10dd_membership_state(member, 0, nullptr, &state, nullptr), C10DD_OK);
  const std::uint64_t seen = state->change;
  EXPECT_EQ(state->phase, C10DD_FORMED);
  c10dd_free(state);
  const std::uint32_t self = 0;
  c10dd_notice notice{};
  notice.ranks = {&self, 1};
  notice.reason = "maintenance";
  std::uint64_t number = 0;
  ASSERT_EQ(c10dd_membership_notify(member, &notice, nullptr, nullptr, &number, nullptr), C10DD_OK);
  ASSERT_EQ(c10dd_membership_state(member, seen, nullptr, &state, nullptr), C10DD_OK);
  EXPECT_GT(state->change, seen);
  ASSERT_EQ(state->notice_count, 1u);
  EXPECT_STREQ(state->notices[0].reason, "maintenance");
  EXPECT_EQ(state->notices[0].ranks.count, 1u);
  c10dd_free(state);
  EXPECT_EQ(c10dd_membership_close(member, nullptr), C10DD_OK);
}

}  // namespace
}  // namespace c10dd::test
