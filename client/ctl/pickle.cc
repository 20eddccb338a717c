// SPDX-License-Identifier: Apache-2.0
// A pickle is a program for a machine with a stack and a memo.
#include "client/ctl/pickle.h"

#include <bit>
#include <iterator>
#include <optional>
#include <utility>

#include "client/ctl/pickle_bytes.h"
#include "protocol/format.h"
#include "protocol/parse.h"

namespace c10dd::ctl {
namespace {

constexpr unsigned kNewestProtocol = 5;

/// The operations that import or call something, or ask the reader for something.
constexpr std::string_view kCode = "cRbioPQ\x81\x82\x83\x84\x92\x93\x97\x98";

class PickleReader {
 public:
  explicit PickleReader(std::string_view bytes) : size_(bytes.size()), in_(bytes) {}

  Result<PlainValue> read() {
    while (!stopped_ && failure_.empty()) {
      begin_ = in_.at();
      if (const auto op = need(in_.take_number(1))) run(static_cast<unsigned char>(*op));
    }
    if (failure_.empty() && in_.left() > 0) {
      fail(format("has {} more bytes behind its end; it is damaged", in_.left()));
    }
    if (failure_.empty()) return std::move(stack_.back());
    return failure(Code::invalid_argument, "the pickle {}", failure_);
  }

 private:
  using Items = PlainValue::Items;
  using Added = PlainValue::Added;

  // After a failure no other operation runs.

  void fail(std::string what) {
    if (failure_.empty()) failure_ = std::move(what);
  }
  void fail_damaged(std::string_view what) {
    fail(format("is damaged: the operation at byte {} {}", begin_, what));
  }
  void fail_too_many() {
    fail(format("has more than {} values; write a shorter record", PlainValue::kValues));
  }
  void fail_too_deep() {
    fail(format("has more than {} lists and dicts in one another, at byte {}; no record has",
                PlainValue::kDepth, begin_));
  }
  template <class T>
  std::optional<T> need(std::optional<T> taken) {
    if (!taken) fail(format("is cut short: it has only {} bytes; copy it again", size_));
    return taken;
  }

  // The stack.

  std::size_t above_mark() const { return stack_.size() - (marks_.empty() ? 0 : marks_.back()); }
  bool has(std::size_t count) {
    if (above_mark() < count) fail_damaged("lacks its values");
    return above_mark() >= count;
  }
  void push(PlainValue value) {
    if (stack_.size() == PlainValue::kValues) return fail_too_many();
    stack_.push_back(std::move(value));
  }
  Items pop(std::size_t count) {
    const auto first = stack_.end() - static_cast<std::ptrdiff_t>(count);
    Items items(std::make_move_iterator(first), std::make_move_iterator(stack_.end()));
    stack_.erase(first, stack_.end());
    return items;
  }
  /// Pops what is above the newest mark, and the mark.
  std::optional<Items> pop_marked() {
    if (marks_.empty()) {
      fail_damaged("lacks its mark");
      return std::nullopt;
    }
    Items items = pop(above_mark());
    marks_.pop_back();
    return items;
  }
  void mark() {
    // Each mark becomes a list or dict.
    if (marks_.size() == PlainValue::kDepth) return fail_too_deep();
    marks_.push_back(stack_.size());
  }

  void add(PlainValue into, Items items) {
    if (into.is_dict() && items.size() % 2 == 1) return fail_damaged("has a key without a value");
    const Added added = into.add(std::move(items));
    if (added == Added::too_deep) fail_too_deep();
    if (added == Added::too_many) fail_too_many();
    if (added == Added::stored) fail_damaged("changes a list or dict that is in another one");
  }
  void push_container(PlainValue made, std::optional<Items> items) {
    if (!items) return;
    add(made, std::move(*items));
    push(std::move(made));
  }
  void push_tuple(std::size_t size) {
    if (has(size)) push_container(PlainValue::list(), pop(size));
  }
  /// Adds items to the list or dict on top of the stack.
  void extend(bool dict, std::optional<Items> items) {
    if (!items || !has(1)) return;
    const PlainValue& top = stack_.back();
    if (dict ? !top.is_dict() : !top.is_list()) return fail_damaged("has no list or dict to fill");
    add(top, std::move(*items));
  }
  void extend_by(bool dict, std::size_t count) {
    if (has(count + 1)) extend(dict, pop(count));
  }

  // The memo. Every writer numbers what it puts there in ascending order.

  void remember(std::optional<std::uint64_t> index) {
    if (!index || !has(1)) return;
    if (*index > memo_.size()) return fail_damaged("skips a number of the memo");
    if (*index == PlainValue::kValues) return fail_too_many();
    if (*index == memo_.size()) memo_.emplace_back();
    memo_[*index] = stack_.back();
  }
  void recall(std::optional<std::uint64_t> index) {
    if (!index) return;
    if (*index >= memo_.size()) return fail_damaged("asks for what is not in the memo");
    push(memo_[*index]);
  }

  // Values without parts.

  void push_text(std::optional<std::string_view> bytes) {
    if (need(bytes)) push(PlainValue(std::string(*bytes)));
  }
  template <class Number>
  void push_number(std::optional<std::uint64_t> raw) {
    if (need(raw)) push(PlainValue(std::int64_t{static_cast<Number>(*raw)}));
  }
  /// Pushes a number of two's complement, with its low byte first.
  void push_long(std::optional<std::string_view> raw) {
    if (!need(raw)) return;
    if (raw->size() > sizeof(std::int64_t)) return fail_damaged("has more than 64 bits");
    std::uint64_t value = !raw->empty() && (raw->back() & 0x80) != 0 ? ~std::uint64_t{0} : 0;
    for (std::size_t i = raw->size(); i-- > 0;) {
      value = value << 8 | static_cast<unsigned char>((*raw)[i]);
    }
    push(PlainValue(static_cast<std::int64_t>(value)));
  }
  void push_double() {
    const auto raw = need(in_.take(sizeof(double)));
    if (!raw) return;
    std::uint64_t bits = 0;
    for (const char byte : *raw) bits = bits << 8 | static_cast<unsigned char>(byte);
    push(PlainValue(std::bit_cast<double>(bits)));
  }
  template <class Number>
  std::optional<Number> number_in(std::optional<std::string_view> line) {
    const auto number = need(line) ? parse_number<Number>(*line) : std::nullopt;
    if (line && !number) fail_damaged("has no number");
    return number;
  }
  void push_line_of_integer(std::optional<std::string_view> line) {
    if (line == "00" || line == "01") return push(PlainValue(line == "01"));
    if (line && line->ends_with('L')) line->remove_suffix(1);
    if (const auto value = number_in<std::int64_t>(line)) push(PlainValue(*value));
  }
  void push_line_of_double(std::optional<std::string_view> line) {
    if (const auto value = number_in<double>(line)) push(PlainValue(*value));
  }
  void push_line_of_text(std::optional<std::string_view> line) {
    if (!need(line)) return;
    std::optional<std::string> text = unescaped(*line);
    text ? push(PlainValue(std::move(*text))) : fail_damaged("has a wrong escape");
  }

  void run(unsigned char op);
  // These return false if the operation is another one.
  bool run_plain(unsigned char op);
  bool run_container(unsigned char op);
  bool run_memo(unsigned char op);
  bool run_other(unsigned char op);
  void stop();
  void check_protocol();
  void refuse(unsigned char op);

  const std::size_t size_;
  PickleBytes in_;
  std::size_t begin_ = 0;  // of the present operation
  bool stopped_ = false;
  std::string failure_;
  Items stack_;
  std::vector<std::size_t> marks_;  // heights of the stack
  Items memo_;
};

void PickleReader::run(unsigned char op) {
  if (run_plain(op) || run_container(op) || run_memo(op) || run_other(op)) return;
  refuse(op);
}

bool PickleReader::run_plain(unsigned char op) {
  switch (op) {
    case 'N':
      return push(PlainValue()), true;
    case 0x88:
    case 0x89:
      return push(PlainValue(op == 0x88)), true;
    case 'J':
      return push_number<std::int32_t>(in_.take_number(4)), true;
    case 'K':
      return push_number<std::uint8_t>(in_.take_number(1)), true;
    case 'M':
      return push_number<std::uint16_t>(in_.take_number(2)), true;
    case 0x8A:
      return push_long(in_.take_counted(1)), true;
    case 0x8B:
      return push_long(in_.take_counted(4)), true;
    case 'I':
    case 'L':
      return push_line_of_integer(in_.take_line()), true;
    case 'F':
      return push_line_of_double(in_.take_line()), true;
    case 'G':
      return push_double(), true;
    case 'V':
      return push_line_of_text(in_.take_line()), true;
    case 'U':
    case 'C':
    case 0x8C:
      return push_text(in_.take_counted(1)), true;
    case 'T':
    case 'B':
    case 'X':
      return push_text(in_.take_counted(4)), true;
    case 0x8D:
    case 0x8E:
    case 0x96:
      return push_text(in_.take_counted(8)), true;
    default:
      return false;
  }
}

bool PickleReader::run_container(unsigned char op) {
  switch (op) {
    case ']':
    case ')':
      return push_container(PlainValue::list(), Items()), true;
    case '}':
      return push_container(PlainValue::dict(), Items()), true;
    case 'l':
    case 't':
      return push_container(PlainValue::list(), pop_marked()), true;
    case 'd':
      return push_container(PlainValue::dict(), pop_marked()), true;
    case 0x85:
    case 0x86:
    case 0x87:
      return push_tuple(op - 0x84u), true;
    case 'a':
      return extend_by(false, 1), true;
    case 's':
      return extend_by(true, 2), true;
    case 'e':
    case 'u':
      return extend(op == 'u', pop_marked()), true;
    default:
      return false;
  }
}

bool PickleReader::run_memo(unsigned char op) {
  switch (op) {
    case 'p':
      return remember(number_in<std::uint64_t>(in_.take_line())), true;
    case 'q':
      return remember(need(in_.take_number(1))), true;
    case 'r':
      return remember(need(in_.take_number(4))), true;
    case 0x94:
      return remember(memo_.size()), true;
    case 'g':
      return recall(number_in<std::uint64_t>(in_.take_line())), true;
    case 'h':
      return recall(need(in_.take_number(1))), true;
    case 'j':
      return recall(need(in_.take_number(4))), true;
    default:
      return false;
  }
}

bool PickleReader::run_other(unsigned char op) {
  switch (op) {
    case 0x80:
      return check_protocol(), true;
    case 0x95:  // how long the next part of the pickle is
      return need(in_.take(8)), true;
    case '(':
      return mark(), true;
    case '0':
      if (has(1)) stack_.pop_back();
      return true;
    case '1':
      return pop_marked(), true;
    case '2':
      if (has(1)) push(PlainValue(stack_.back()));
      return true;
    case '.':
      return stop(), true;
    default:
      return false;
  }
}

void PickleReader::stop() {
  if (!marks_.empty() || stack_.size() != 1) return fail_damaged("ends it too early");
  stopped_ = true;
}

void PickleReader::check_protocol() {
  const auto protocol = need(in_.take_number(1));
  if (!protocol || *protocol <= kNewestProtocol) return;
  fail(format("has protocol {}; c10ddctl reads protocols 0 to {}", *protocol, kNewestProtocol));
}

void PickleReader::refuse(unsigned char op) {
  if (kCode.find(static_cast<char>(op)) != std::string_view::npos) {
    return fail(
        format("has code in it, the operation 0x{:02x} at byte {}, which c10ddctl does not "
               "run; flight records have none",
               op, begin_));
  }
  fail(
      format("has the byte 0x{:02x} at byte {}, which is no operation of plain values; is it a "
             "flight record?",
             op, begin_));
}

}  // namespace

Result<PlainValue> read_pickle(std::string_view bytes) { return PickleReader(bytes).read(); }

}  // namespace c10dd::ctl
