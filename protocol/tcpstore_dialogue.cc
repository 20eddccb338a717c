// SPDX-License-Identifier: Apache-2.0
#include "protocol/tcpstore_dialogue.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "protocol/format.h"
#include "protocol/limits.h"

namespace c10dd::tcpstore {
namespace {

constexpr Duration kNoDeadline = Duration::max();

std::vector<Bytes> copies(const std::vector<std::string_view>& texts) {
  return {texts.begin(), texts.end()};
}

Bytes byte(std::uint8_t value) { return Bytes(1, static_cast<char>(value)); }

/// Returns the total size of the keys and values in a reply.
std::size_t size_of(const Reply& reply) {
  std::size_t bytes = 0;
  if (!reply) return bytes;
  if (const auto* value = std::get_if<Value>(&*reply)) bytes = value->value.size();
  if (const auto* compared = std::get_if<Compared>(&*reply)) bytes = compared->current.size();
  if (const auto* popped = std::get_if<Popped>(&*reply)) bytes = popped->value.size();
  if (const auto* page = std::get_if<ValuePage>(&*reply)) {
    for (const Blob& value : page->values) bytes += value.size();
  }
  if (const auto* page = std::get_if<KeyPage>(&*reply)) {
    for (const Bytes& key : page->keys) bytes += key.size();
  }
  return bytes;
}

}  // namespace

bool is_local(Query query) {
  return query == Query::validate || query == Query::ping || query == Query::watch_key ||
         query == Query::cancel_wait;
}

// ---- messages ----------------------------------------------------------------------------------

Result<bool> TcpStoreDialogue::cut(std::string_view in) {
  if (found_) return true;
  const Result<bool> whole = cutter_.cut(in);
  found_ = whole && *whole;
  return whole;
}

Result<std::optional<MessageHead>> TcpStoreDialogue::look(std::string_view in) {
  const Result<bool> whole = cut(in);
  if (!whole) return whole.error();
  return cutter_.head(in);
}

std::size_t TcpStoreDialogue::take(std::string_view in, RequestSink& to, Bytes& out) {
  if (ending_ || is_paused()) return 0;
  const Result<bool> whole = cut(in);
  if (!whole) end(whole.error(), out);
  if (!whole || !*whole) return 0;
  found_ = false;
  pass_on(cutter_.decode(in), to, out);
  return cutter_.size();
}

bool TcpStoreDialogue::is_paused() const {
  return paged_ || slots_.size() >= limits::kSessionWindow || held_ > limits::kOutboxSoftBytes;
}

void TcpStoreDialogue::pass_on(const Message& message, RequestSink& to, Bytes& out) {
  const Query query = message.query;
  const bool cancels = query == Query::cancel_wait;
  if (dialect() != Dialect::v && !cancels) drop_waits(to);
  const Blob key = Blob::borrow(message.key);
  switch (query) {
    case Query::validate:
      return;
    case Query::ping: {
      pid_ = static_cast<std::uint32_t>(message.number);
      Bytes same;
      put_word(same, *pid_);
      return reply_now(query, std::move(same), out);
    }
    case Query::watch_key:  // PyTorch's own programs use no events, so none are sent
      return reply_now(query, byte(kKeyWatched), out);
    case Query::cancel_wait:
      return cancel_waits(to, out);
    case Query::set:
      return submit(query, true, Set{Blob::borrow(message.key), Blob::borrow(message.value)}, to);
    case Query::append:
      return submit(query, true, Append{Blob::borrow(message.key), Blob::borrow(message.value)},
                    to);
    case Query::multi_set:
      if (message.keys.empty()) return;
      return submit(query, true, MultiSet{copies(message.keys), copies(message.values)}, to);
    case Query::queue_push:
      return submit(query, true, QueuePush{Bytes(message.key), Bytes(message.value)}, to);
    case Query::compare_set:
      return compare_set(message, to);
    case Query::get:
      return submit(query, false, Get{Blob::borrow(message.key), Duration(0)}, to);
    case Query::add:
      return submit(query, false, Add{Blob::borrow(message.key), message.number, true}, to);
    case Query::check:
      if (message.keys.empty()) return reply_now(query, byte(kReady), out);
      return submit(query, false, Check{copies(message.keys)}, to);
    case Query::wait:
      if (message.keys.empty()) return reply_now(query, byte(kReady), out);
      return submit(query, false, Wait{copies(message.keys), kNoDeadline, true}, to);
    case Query::count_keys:
      return submit(query, false, Count{}, to);
    case Query::remove:
      return submit(query, false, Remove{Blob::borrow(message.key)}, to);
    case Query::multi_get:
      if (message.keys.empty()) return;
      return submit_pages(query, ReadValues{copies(message.keys), 0}, to);
    case Query::queue_pop:
      return submit(query, false, QueuePop{Bytes(message.key), Duration(0)}, to);
    case Query::queue_length:
      return submit(query, false, QueueLength{Bytes(message.key)}, to);
    case Query::list_keys:
      return submit_pages(query, List{}, to);
    case Query::barrier:
      return barrier(message, to);
  }
}

void TcpStoreDialogue::compare_set(const Message& message, RequestSink& to) {
  auto extra = std::make_unique<Extra>();
  extra->expected = message.expected;
  extra->desired = message.value;
  extra->bytes = message.expected.size() + message.value.size();
  held_ += extra->bytes;
  const CompareSet request{Blob::borrow(message.key), Blob::borrow(message.expected),
                           Blob::borrow(message.value)};
  submit(message.query, false, request, to, std::move(extra));
}

/// A barrier counts its arrivals in a key, which is not reset. A client that arrives later, or
/// again, gets its reply at once.
void TcpStoreDialogue::barrier(const Message& message, RequestSink& to) {
  submit(message.query, true, Add{Blob::borrow(message.key), 1, true}, to);
  submit(message.query, false, WaitCounter{Blob::borrow(message.key), message.number, kNoDeadline},
         to);
}

void TcpStoreDialogue::submit(Query query, bool silent, const Request& request, RequestSink& to,
                              std::unique_ptr<Extra> extra) {
  const std::uint64_t sequence = ++sequence_;
  slots_.push_back({sequence, query, silent, false, {}, std::move(extra)});
  if (!to.submit(sequence, request)) return;
  slots_.pop_back();
  blocked_.push_back({sequence, query});
  if (blocked_.size() <= limits::kSessionWindow) return;
  ending_ = true;
  over_ = failure(Code::window_exceeded, "the connection has {} blocked waits, limit {}",
                  blocked_.size(), limits::kSessionWindow);
}

/// Requests the first page of a long reply. Until the reply is complete, no message is taken: later
/// messages must not change what the reply shows.
void TcpStoreDialogue::submit_pages(Query query, Request first, RequestSink& to) {
  auto extra = std::make_unique<Extra>();
  extra->page = std::move(first);
  const Request& request = extra->page;
  paged_ = true;
  submit(query, false, request, to, std::move(extra));
}

void TcpStoreDialogue::read_on(RequestSink& to) {
  if (!std::exchange(more_, false)) return;
  Slot& slot = slots_.back();
  slot.sequence = ++sequence_;
  to.submit(slot.sequence, slot.extra->page);
}

/// Replies to a message that needs no request.
void TcpStoreDialogue::reply_now(Query query, Bytes bytes, Bytes& out) {
  slots_.push_back({++sequence_, query, false, true, std::move(bytes), nullptr});
  flush(out);
}

/// Cancels the blocked waits. The client gets one reply, when the last one is cancelled. A wait
/// that has ended before that gets its own reply first.
void TcpStoreDialogue::cancel_waits(RequestSink& to, Bytes& out) {
  std::vector<std::uint64_t> waits;
  for (BlockedWait& wait : blocked_) {
    if (wait.cancelled_by != 0) continue;
    waits.push_back(wait.sequence);
    wait.cancelled_by = sequence_ + waits.size();
  }
  if (waits.empty()) return reply_now(Query::cancel_wait, byte(kWaitCancelled), out);
  for (const std::uint64_t wait : waits) {
    submit(Query::cancel_wait, wait != waits.back(), Cancel{wait}, to);
  }
}

/// Cancels the blocked waits of a client that sends nothing when its wait has timed out. A reply to
/// the wait would be mistaken for the reply to the next message.
void TcpStoreDialogue::drop_waits(RequestSink& to) {
  for (const BlockedWait& wait : std::exchange(blocked_, {})) {
    if (wait.cancelled_by == 0) submit(Query::cancel_wait, true, Cancel{wait.sequence}, to);
  }
}

/// Ends the conversation after the replies to all messages before.
void TcpStoreDialogue::end(Failure reason, Bytes& out) {
  ending_ = true;
  auto extra = std::make_unique<Extra>();
  extra->early = Reply(std::move(reason));
  slots_.push_back({++sequence_, Query::validate, true, true, {}, std::move(extra)});
  flush(out);
}

// ---- replies -----------------------------------------------------------------------------------

void TcpStoreDialogue::reply(std::uint64_t sequence, const Reply& reply, Bytes& out) {
  if (over_) return;
  const auto slot =
      std::lower_bound(slots_.begin(), slots_.end(), sequence,
                       [](const Slot& one, std::uint64_t wanted) { return one.sequence < wanted; });
  if (slot == slots_.end() || slot->sequence != sequence) {
    return reply_to_blocked(sequence, reply, out);
  }
  if (slot->ready) return;
  if (slot->query == Query::cancel_wait) {
    std::erase_if(blocked_, [&](const BlockedWait& wait) { return wait.cancelled_by == sequence; });
  }
  if (slot != slots_.begin()) return hold(*slot, reply);
  if (!write(*slot, reply, out)) return;
  pop_front();
  flush(out);
}

void TcpStoreDialogue::reply_to_blocked(std::uint64_t sequence, const Reply& reply, Bytes& out) {
  const auto wait = std::find_if(blocked_.begin(), blocked_.end(),
                                 [&](const BlockedWait& one) { return one.sequence == sequence; });
  if (wait == blocked_.end()) return;
  const auto next = std::find_if(slots_.begin(), slots_.end(),
                                 [&](const Slot& one) { return one.sequence > sequence; });
  const auto slot = slots_.insert(next, {sequence, wait->query, false, false, {}, nullptr});
  blocked_.erase(wait);
  hold(*slot, reply);
  flush(out);
}

/// Keeps a reply until the replies to all messages before have left.
void TcpStoreDialogue::hold(Slot& slot, const Reply& reply) {
  slot.ready = true;
  if (slot.silent && reply) return;
  if (!slot.extra) slot.extra = std::make_unique<Extra>();
  slot.extra->early = reply;
  const std::size_t bytes = size_of(reply);
  slot.extra->bytes += bytes;
  held_ += bytes;
  if (held_ <= limits::kOutboxHardBytes) return;
  ending_ = true;
  over_ = failure(Code::window_exceeded,
                  "{} bytes of replies wait for the reply to an earlier message, limit {}", held_,
                  limits::kOutboxHardBytes);
}

void TcpStoreDialogue::pop_front() {
  if (slots_.front().extra) held_ -= slots_.front().extra->bytes;
  slots_.pop_front();
}

void TcpStoreDialogue::flush(Bytes& out) {
  while (!over_ && !slots_.empty() && slots_.front().ready) {
    Slot& slot = slots_.front();
    if (slot.extra && slot.extra->early) {
      const Reply reply = std::move(*slot.extra->early);
      slot.extra->early.reset();
      slot.ready = false;
      if (!write(slot, reply, out)) return;
    } else {
      out.append(slot.bytes);
    }
    pop_front();
  }
}

/// Appends the bytes of a reply. Returns false if a page of the reply is missing.
bool TcpStoreDialogue::write(Slot& slot, const Reply& reply, Bytes& out) {
  if (!reply) {
    const bool missing = reply.error().code == Code::not_found;
    if (missing && slot.query == Query::get) {
      put_text(out, {});
    } else if (missing && slot.query == Query::queue_pop) {
      put_number(out, 0);
    } else {
      ending_ = true;
      over_ = reply.error();
    }
    return true;
  }
  if (slot.silent) return true;
  switch (slot.query) {
    case Query::compare_set: {
      // PyTorch's servers reply with the expected value if the key does not exist.
      const auto& compared = std::get<Compared>(*reply);
      const Bytes& current = compared.exists ? compared.current : slot.extra->expected;
      put_text(out, compared.swapped ? slot.extra->desired : current);
      return true;
    }
    case Query::get:
      put_text(out, std::get<Value>(*reply).value);
      return true;
    case Query::add:
      put_number(out, std::get<Counter>(*reply).value);
      return true;
    case Query::check:
      put_byte(out, std::get<Checked>(*reply).all ? kReady : kNotReady);
      return true;
    case Query::count_keys:
    case Query::queue_length:
      put_number(out, static_cast<std::int64_t>(std::get<Counted>(*reply).count));
      return true;
    case Query::remove:
      put_number(out, std::get<Removed>(*reply).existed ? 1 : 0);
      return true;
    case Query::queue_pop:
      put_number(out, static_cast<std::int64_t>(std::get<Popped>(*reply).length));
      put_text(out, std::get<Popped>(*reply).value);
      return true;
    case Query::cancel_wait:
      put_byte(out, kWaitCancelled);
      return true;
    case Query::multi_get:
      return write_values(slot, std::get<ValuePage>(*reply), out);
    case Query::list_keys:
      return write_keys(slot, std::get<KeyPage>(*reply), out);
    default:
      put_byte(out, kReady);
      return true;
  }
}

bool TcpStoreDialogue::write_values(Slot& slot, const ValuePage& page, Bytes& out) {
  auto& request = std::get<ReadValues>(slot.extra->page);
  if (page.values.empty() || page.next != request.first + page.values.size()) {
    ending_ = true;
    over_ = failure(Code::internal,
                    "multi_get: the page from key {} on has {} values, but ends at key {}",
                    request.first, page.values.size(), page.next);
    return true;
  }
  for (const Blob& value : page.values) put_text(out, value);
  request.first = page.next;
  paged_ = more_ = page.next < request.keys.size();
  return !paged_;
}

/// Gathers all pages, because the number of keys comes first.
bool TcpStoreDialogue::write_keys(Slot& slot, const KeyPage& page, Bytes& out) {
  Extra& extra = *slot.extra;
  const std::size_t before = extra.keys.size();
  for (const Bytes& key : page.keys) put_text(extra.keys, key);
  extra.count += static_cast<std::int64_t>(page.keys.size());
  extra.bytes += extra.keys.size() - before;
  held_ += extra.keys.size() - before;
  if (extra.keys.size() > limits::kTcpStoreMessageBytes) {
    ending_ = true;
    over_ = failure(Code::too_large, "list_keys: the first {} keys exceed the limit of {} bytes",
                    extra.count, limits::kTcpStoreMessageBytes);
    return true;
  }
  paged_ = more_ = page.more;
  if (page.more) {
    std::get<List>(extra.page).start_after = page.keys.back();
    return false;
  }
  put_number(out, extra.count);
  out.append(extra.keys);
  return true;
}

}  // namespace c10dd::tcpstore
