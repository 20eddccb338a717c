// SPDX-License-Identifier: Apache-2.0
#include "tests/matrix/run_cell.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "tests/matrix/buffer.h"
#include "tests/matrix/values.h"

namespace c10dd::matrix {
namespace {

class Run {
 public:
  Run(ProcessGroup& group, const Cell& cell, std::uint64_t seed)
      : group_(group), cell_(cell), seed_(seed), root_(cell.root) {}

  Outcome operator()() {
    switch (cell_.form) {
      case Form::all_reduce:
        return all_reduce();
      case Form::broadcast:
        return broadcast();
      case Form::reduce:
        return reduce();
      case Form::all_gather_single:
      case Form::all_gather:
        return all_gather();
      case Form::reduce_scatter_single:
      case Form::reduce_scatter:
        return reduce_scatter();
      case Form::gather_single:
      case Form::gather:
        return gather();
      case Form::scatter_single:
      case Form::scatter:
        return scatter();
      case Form::all_to_all_single:
      case Form::all_to_all_splits:
      case Form::all_to_all:
        return all_to_all();
      case Form::barrier:
        group_.barrier();
        return {};
      case Form::message:
        return message();
    }
    return {"unknown form", 0};
  }

 private:
  Rank rank() const { return group_.rank(); }
  Rank size() const { return group_.size(); }
  DType dtype() const { return cell_.dtype; }
  ReduceOp op() const { return {static_cast<ReduceOp::Kind>(cell_.reduce), factor_of(rank())}; }
  ReduceOp::Kind kind() const { return static_cast<ReduceOp::Kind>(cell_.reduce); }
  bool lists() const {
    return cell_.form == Form::all_gather || cell_.form == Form::reduce_scatter ||
           cell_.form == Form::gather || cell_.form == Form::scatter ||
           cell_.form == Form::all_to_all || cell_.form == Form::all_to_all_splits;
  }

  /// Returns whether this rank compares a result that all ranks have. Only rank 0 compares a large
  /// one: it takes long, and the others' results have the same hash.
  bool compares() const { return cell_.size != Size::large || rank() == 0; }

  /// Number of elements of part `number`. The parts of lists have different sizes, some none.
  std::size_t count(std::size_t number) const {
    if (!lists()) return cell_.count();
    const std::size_t third = number % 3;
    return third == 0 ? cell_.count() : third == 1 ? cell_.count() / 2 : 0;
  }

  /// The input of a rank for a part.
  Bytes input(Rank from, std::size_t part = 0) const { return input(from, part, count(part)); }
  Bytes input(Rank from, std::size_t part, std::size_t elements) const {
    const Values values = cell_.reduce == kNoReduction ? Values::moved : values_for(kind());
    return random_elements(dtype(), elements, values, seed_ + part * 7'919, from);
  }
  Bytes blank(std::size_t elements) const { return Bytes(elements * size_of(dtype())); }

  /// Notes that something is wrong, unless something was wrong before.
  void note(bool good, std::string_view what) {
    if (!good && outcome_.wrong.empty()) outcome_.wrong = what;
  }
  void expect(const Buffer& buffer, const Bytes& expected, std::string_view what) {
    note(std::ranges::equal(buffer.elements(), expected), what);
    expect_intact(buffer);
  }
  void expect_reduced(std::span<const std::byte> result, std::size_t part = 0) {
    std::vector<Bytes> inputs;
    for (Rank from = 0; from < size(); ++from) inputs.push_back(input(from, part));
    const std::string wrong = check_reduction(dtype(), kind(), inputs, result);
    note(wrong.empty(), wrong);
  }
  void expect_intact(const Buffer& buffer) {
    note(buffer.is_intact(), "bytes behind a tensor have changed");
  }

  Outcome all_reduce() {
    Buffer buffer(dtype(), input(rank()));
    group_.all_reduce(buffer.tensor(), op());
    if (compares()) expect_reduced(buffer.elements());
    expect_intact(buffer);
    outcome_.hash = hash_of(buffer.elements());
    return outcome_;
  }

  Outcome broadcast() {
    Buffer buffer(dtype(), input(rank()));
    group_.broadcast(buffer.tensor(), root_);
    expect(buffer, input(root_), "the elements are not those of the root");
    return outcome_;
  }

  Outcome reduce() {
    Buffer buffer(dtype(), input(rank()));
    group_.reduce(buffer.tensor(), root_, op());
    if (rank() == root_) {
      expect_reduced(buffer.elements());
      expect_intact(buffer);
    } else {
      expect(buffer, input(rank()), "the tensor of another rank than the root has changed");
    }
    return outcome_;
  }

  /// A tensor with the parts of all ranks, one after the other, and where each begins.
  struct Whole {
    Bytes bytes;
    std::vector<std::size_t> begins;
  };
  template <class Part>
  Whole joined(Part part) const {
    Whole whole;
    for (Rank from = 0; from < size(); ++from) {
      const Bytes one = part(from);
      whole.begins.push_back(whole.bytes.size() / size_of(dtype()));
      whole.bytes.insert(whole.bytes.end(), one.begin(), one.end());
    }
    return whole;
  }

  /// The parts of `buffer` that joined() has joined.
  std::vector<Tensor> parts_of(Buffer& buffer, const Whole& whole) {
    std::vector<Tensor> parts;
    for (std::size_t i = 0; i < whole.begins.size(); ++i) {
      const std::size_t end =
          i + 1 < whole.begins.size() ? whole.begins[i + 1] : buffer.tensor().count;
      parts.push_back(buffer.part(whole.begins[i], end - whole.begins[i]));
    }
    return parts;
  }

  static std::vector<std::size_t> counts_of(const std::vector<Tensor>& parts) {
    std::vector<std::size_t> counts;
    for (const Tensor& part : parts) counts.push_back(part.count);
    return counts;
  }

  /// Returns memory for `whole` that is blank but for this rank's part, if that is in place.
  Bytes before(const Whole& whole, const Bytes& own) const {
    Bytes bytes(whole.bytes.size());
    if (cell_.in_place && !own.empty()) {
      std::memcpy(bytes.data() + whole.begins[rank()] * size_of(dtype()), own.data(), own.size());
    }
    return bytes;
  }

  Outcome all_gather() {
    const Whole whole =
        joined([&](Rank from) { return compares() ? input(from, from) : blank(count(from)); });
    const Bytes own = input(rank(), rank());
    Buffer output(dtype(), before(whole, own));
    Buffer apart(dtype(), own);
    const std::vector<Tensor> parts = parts_of(output, whole);
    const Tensor from = cell_.in_place ? parts[rank()] : apart.tensor();
    lists() ? group_.all_gather(parts, from) : group_.all_gather_single(output.tensor(), from);
    if (compares()) expect(output, whole.bytes, "the output is not the inputs of all ranks");
    expect_intact(output);
    expect(apart, own, "the input has changed");
    outcome_.hash = hash_of(output.elements());
    return outcome_;
  }

  Outcome gather() {
    const Whole whole = joined([&](Rank from) { return input(from, from); });
    const Bytes own = input(rank(), rank());
    const bool is_root = rank() == root_;
    Buffer output(dtype(), is_root ? before(whole, own) : Bytes());
    Buffer apart(dtype(), own);
    std::vector<Tensor> parts;
    if (is_root) parts = parts_of(output, whole);
    const Tensor from = is_root && cell_.in_place ? parts[rank()] : apart.tensor();
    lists() ? group_.gather(parts, from, root_)
            : group_.gather_single(output.tensor(), from, root_);
    expect(output, is_root ? whole.bytes : Bytes(), "the output is not the inputs of all ranks");
    expect(apart, own, "the input has changed");
    return outcome_;
  }

  Outcome scatter() {
    const Whole whole = joined([&](Rank to) { return input(root_, to); });
    const bool is_root = rank() == root_;
    Buffer from(dtype(), is_root ? whole.bytes : Bytes());
    const Bytes expected = input(root_, rank());
    Buffer apart(dtype(), blank(count(rank())));
    std::vector<Tensor> parts;
    if (is_root) parts = parts_of(from, whole);
    const bool in_place = is_root && cell_.in_place;
    const Tensor to = in_place ? parts[rank()] : apart.tensor();
    lists() ? group_.scatter(to, parts, root_) : group_.scatter_single(to, from.tensor(), root_);
    if (!in_place) expect(apart, expected, "the output is not the part of the root's input");
    expect(from, is_root ? whole.bytes : Bytes(), "the input has changed");
    return outcome_;
  }

  Outcome reduce_scatter() {
    const Whole whole = joined([&](Rank to) { return input(rank(), to); });
    Buffer from(dtype(), whole.bytes);
    Buffer apart(dtype(), blank(count(rank())));
    const std::vector<Tensor> parts = parts_of(from, whole);
    const Tensor to = cell_.in_place ? parts[rank()] : apart.tensor();
    lists() ? group_.reduce_scatter(to, parts, op())
            : group_.reduce_scatter_single(to, from.tensor(), op());
    expect_reduced({static_cast<const std::byte*>(to.data), to.bytes()}, rank());
    expect_intact(apart);
    expect_intact(from);
    if (!cell_.in_place) expect(from, whole.bytes, "the input has changed");
    return outcome_;
  }

  Outcome all_to_all() {
    const auto between = [&](Rank a, Rank b) {
      const std::size_t number = a + 2 * std::size_t{b};
      return input(a, number, count(number));
    };
    const Whole sent = joined([&](Rank to) { return between(rank(), to); });
    const Whole expected = joined([&](Rank from) { return between(from, rank()); });
    Buffer from(dtype(), sent.bytes);
    Buffer to(dtype(), Bytes(expected.bytes.size()));
    const std::vector<Tensor> outputs = parts_of(to, expected);
    const std::vector<Tensor> inputs = parts_of(from, sent);
    if (cell_.form == Form::all_to_all) {
      group_.all_to_all(outputs, inputs);
    } else if (cell_.form == Form::all_to_all_single) {
      group_.all_to_all_single(to.tensor(), from.tensor());
    } else {
      group_.all_to_all_single(to.tensor(), from.tensor(), counts_of(outputs), counts_of(inputs));
    }
    expect(to, expected.bytes, "the output is not the parts of all ranks for this rank");
    expect(from, sent.bytes, "the input has changed");
    return outcome_;
  }

  Outcome message() {
    const Rank next = (rank() + 1) % size();
    const Rank previous = (rank() + size() - 1) % size();
    const auto tag = static_cast<std::uint32_t>(seed_ * 2'654'435'761u) % kAnyTag;
    const bool any = seed_ % 2 == 0;  // one message to each rank, so any source is the previous one
    Buffer from(dtype(), input(rank()));
    Buffer to(dtype(), blank(cell_.count()));
    const WorkPtr sent = group_.isend(from.tensor(), next, tag);
    const WorkPtr got = group_.irecv(to.tensor(), any ? kAnyRank : previous, any ? kAnyTag : tag);
    got->wait();
    sent->wait();
    expect(to, input(previous), "the message is not that of the previous rank");
    const Received received = got->received();
    note(received.source == previous && received.tag == tag && received.count == cell_.count(),
         "source, tag or count of the message is wrong");
    group_.barrier();  // a message of the next cell must not be taken for one of this
    return outcome_;
  }

  ProcessGroup& group_;
  const Cell& cell_;
  const std::uint64_t seed_;
  const Rank root_;
  Outcome outcome_;
};

}  // namespace

Outcome run_cell(ProcessGroup& group, const Cell& cell, std::uint64_t seed) {
  return Run(group, cell, seed)();
}

}  // namespace c10dd::matrix
