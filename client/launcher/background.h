// SPDX-License-Identifier: Apache-2.0
// Runs blocking calls on other threads while the event loop of this thread goes on, so that signals
// and output are handled even during a rendezvous of ten minutes.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <exception>
#include <memory>
#include <optional>
#include <thread>
#include <type_traits>
#include <utility>

namespace c10dd::run {

class Background {
 public:
  explicit Background(boost::asio::io_context& loop) : loop_(loop) {}

  struct Nothing {};
  template <class Call>
  using Value = std::conditional_t<std::is_void_v<std::invoke_result_t<Call&>>, Nothing,
                                   std::invoke_result_t<Call&>>;

  /// Runs a call on another thread and returns its value, or throws its exception. Returns nothing
  /// if stop_waiting() is true before the call has ended. In this case the call goes on, and its
  /// outcome is dropped. `call` must own all objects that it uses.
  template <class Call, class StopWaiting>
  std::optional<Value<Call>> run(Call call, const StopWaiting& stop_waiting) {
    const auto outcome = start(std::move(call));
    while (!outcome->done && !stop_waiting()) loop_.run_one();
    if (!outcome->done) return std::nullopt;
    if (outcome->error) std::rethrow_exception(outcome->error);
    return std::move(outcome->value);
  }

  /// Runs a call on another thread without waiting for it; its outcome is dropped. `call` must own
  /// all objects that it uses.
  template <class Call>
  void send(Call call) {
    start(std::move(call));
  }

  /// Returns whether all calls have ended. If false, the loop and this object must not be
  /// destroyed.
  bool idle() const { return open_ == 0; }

 private:
  template <class T>
  struct CallResult {
    bool done = false;
    std::optional<T> value;
    std::exception_ptr error;
  };

  template <class Call>
  auto start(Call call) {
    auto outcome = std::make_shared<CallResult<Value<Call>>>();
    ++open_;
    std::thread([this, outcome, call = std::optional<Call>(std::move(call))]() mutable {
      CallResult<Value<Call>> local;
      try {
        if constexpr (std::is_void_v<std::invoke_result_t<Call&>>) {
          (*call)();
          local.value.emplace();
        } else {
          local.value.emplace((*call)());
        }
      } catch (...) {
        local.error = std::current_exception();
      }
      // When the loop knows the outcome, it may destroy what the call used. The last to do so must
      // not be this thread, which the end of the process cuts off: a client says goodbye there.
      call.reset();
      boost::asio::post(loop_, [this, outcome, local = std::move(local)]() mutable {
        *outcome = std::move(local);
        outcome->done = true;
        --open_;
      });
    }).detach();
    return outcome;
  }

  boost::asio::io_context& loop_;
  int open_ = 0;  // number of calls that have not ended; used on the loop's thread only
};

}  // namespace c10dd::run
