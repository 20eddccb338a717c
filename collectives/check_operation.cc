// SPDX-License-Identifier: Apache-2.0
// One function per rule. Error texts begin with the function that the caller has called.
#include "collectives/check_operation.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <iterator>
#include <limits>
#include <string>

#include "client/internal/throw_failure.h"
#include "protocol/format.h"

namespace c10dd::collectives {
namespace {

[[noreturn]] void refuse(std::string text) {
  client::throw_failure(failure(Code::invalid_argument, std::move(text)));
}

/// Returns how many elements of the type the largest possible memory has.
std::size_t most_elements(DType dtype) {
  return static_cast<std::size_t>(std::numeric_limits<std::ptrdiff_t>::max()) / size_of(dtype);
}

/// Returns whether memory can have so many elements.
bool has_room(std::size_t count, DType dtype) {
  constexpr std::size_t kMostOfAnyType = std::numeric_limits<std::ptrdiff_t>::max() / 8;
  return count <= kMostOfAnyType || count <= most_elements(dtype);  // a division takes long
}

/// An operation that is checked. `name` of a tensor is "input" or "output".
struct Checked {
  const Operation& operation;
  const OperationInfo& info;
  const World& world;

  void check_layout() const {
    if (operation.lists) return check_lists();
    const Tensor& output = operation.output;
    const Tensor& input = operation.input;
    const bool root = operation.root == world.rank;
    switch (info.layout) {
      case Layout::none:
        return;
      case Layout::in_place:
        return check_tensor(output, "");
      case Layout::gathered:
        return check_sizes("output", output, world.size, "input", input);
      case Layout::gathered_at_root:
        if (root) return check_sizes("output", output, world.size, "input", input);
        return check_absent("output", output, "input", input);
      case Layout::split:
        return check_sizes("input", input, world.size, "output", output);
      case Layout::split_by_root:
        if (root) return check_sizes("input", input, world.size, "output", output);
        return check_absent("input", input, "output", output);
      case Layout::exchanged:
        return check_exchanged(output, input);
      case Layout::sent:
        return check_tensor(input, "");
      case Layout::received:
        return check_tensor(output, "");
    }
  }

  /// Checks the tensors of an operation with lists.
  void check_lists() const {
    const bool at_root = operation.root == world.rank;
    const bool gathers = info.layout == Layout::gathered || info.layout == Layout::exchanged ||
                         (info.layout == Layout::gathered_at_root && at_root);
    const bool scatters = info.layout == Layout::split || info.layout == Layout::exchanged ||
                          (info.layout == Layout::split_by_root && at_root);
    const bool has_lists =
        info.layout != Layout::none && info.layout != Layout::in_place && !info.message;
    if (!has_lists) refuse(format("{} does not take lists of tensors", info.name));
    check_list("outputs", operation.outputs, gathers);
    check_list("inputs", operation.inputs, scatters);
    check_tensor(operation.output, "output");
    check_tensor(operation.input, "input");
    const Tensor* const from =
        info.reduces ? &operation.inputs[world.rank] : operation.sent(world.rank);
    const Tensor* const to = info.reduces ? &operation.output : operation.received(world.rank);
    if (from != nullptr && to != nullptr && from->count != to->count) {
      refuse(format("{}: this rank sends {} elements to itself, but its output for them has {}",
                    info.name, from->count, to->count));
    }
  }

  void check_list(const char* name, const std::vector<Tensor>& list, bool wanted) const {
    const std::size_t needs = wanted ? world.size : 0;
    if (list.size() != needs) {
      refuse(format("{}: {} has {} tensors, but must have {}{}", info.name, name, list.size(),
                    needs, wanted ? ", one for each rank" : " on this rank"));
    }
    const Tensor& common = operation.common();
    for (std::size_t i = 0; i < list.size(); ++i) {
      check_tensor(list[i], format("{}[{}]", name, i).c_str());
      if (list[i].dtype == common.dtype && list[i].device == common.device) continue;
      refuse(
          format("{}: {}[{}] has {} elements, but another tensor has {}; all tensors must have "
                 "the same type and device",
                 info.name, name, i, name_of(list[i].dtype), name_of(common.dtype)));
    }
  }

  /// Checks that the tensor `large` has `times` times the elements of the tensor `small`.
  void check_sizes(const char* large_name, const Tensor& large, Rank times, const char* small_name,
                   const Tensor& small) const {
    check_tensor(large, large_name);
    check_tensor(small, small_name);
    if (large.device != small.device) {
      refuse(format("{}: input and output are on different devices", info.function));
    }
    if (large.dtype == small.dtype && large.count == small.count * times) return;
    refuse(
        format("{}: the {} has {} {} elements, but must have {} times the {} {} elements of the {}",
               info.function, large_name, large.count, name_of(large.dtype), times, small.count,
               name_of(small.dtype), small_name));
  }

  /// Checks the tensors of a rank that is not the root: `absent` must be empty.
  void check_absent(const char* absent_name, const Tensor& absent, const char* name,
                    const Tensor& tensor) const {
    check_tensor(tensor, name);
    if (absent.count == 0) return;
    refuse(format("{}: the {} has {} elements, but must be empty on ranks other than the root",
                  info.function, absent_name, absent.count));
  }

  void check_exchanged(const Tensor& output, const Tensor& input) const {
    check_sizes("output", output, 1, "input", input);
    if (input.count % world.size != 0) {
      refuse(format(
          "{}: {} elements cannot be divided equally among the {} ranks of process group \"{}\"",
          info.function, input.count, world.size, world.name));
    }
    const auto* const from = static_cast<const std::byte*>(input.data);
    const auto* const to = static_cast<const std::byte*>(output.data);
    const std::less<const std::byte*> before;
    const bool overlap = before(from, to + output.bytes()) && before(to, from + input.bytes());
    if (overlap) refuse(format("{}: input and output overlap", info.function));
  }

  /// Checks that one stream orders all tensors, because Work::wait() orders that of one.
  void check_streams() const {
    const Tensor& common = operation.common();
    const auto differs = [&](const Tensor& tensor) {
      return tensor.count > 0 && tensor.device.kind == Device::Kind::cuda &&
             tensor.stream != common.stream;
    };
    const bool any = differs(operation.output) || differs(operation.input) ||
                     std::ranges::any_of(operation.outputs, differs) ||
                     std::ranges::any_of(operation.inputs, differs);
    if (!any) return;
    refuse(
        format("{}: the tensors have different streams; use one stream for all tensors of an "
               "operation, and let it wait for the other streams",
               info.function));
  }

  void check_tensor(const Tensor& tensor, const char* name) const {
    if (is_dtype(tensor.dtype) && has_room(tensor.count, tensor.dtype) &&
        (tensor.count == 0 || tensor.data != nullptr)) {
      return;
    }
    const std::string what = format("{}{}{}", info.function, *name == '\0' ? "" : " ", name);
    if (!is_dtype(tensor.dtype)) {
      refuse(format("{}: unknown element type {}; valid types are 0 to {}", what,
                    static_cast<unsigned>(tensor.dtype), kDTypes - 1));
    }
    if (!has_room(tensor.count, tensor.dtype)) {
      refuse(format("{}: count is {}, but a tensor can have at most {} elements of type {}", what,
                    tensor.count, most_elements(tensor.dtype), name_of(tensor.dtype)));
    }
    refuse(format("{}: data is null, but count is {}", what, tensor.count));
  }
};

void check_message(const Operation& operation, const OperationInfo& info, const World& world) {
  const bool receives = operation.collective == Collective::recv;
  if (operation.tag == kAnyTag && !receives) {
    refuse(format("{}: tag {} is reserved, because it means any tag in recv; use another tag",
                  info.function, kAnyTag));
  }
  if (operation.peer == kAnyRank && receives) return;
  if (operation.peer >= world.size) {
    refuse(format("{}: peer {} is not a rank of process group \"{}\", which has {} ranks",
                  info.function, operation.peer, world.name, world.size));
  }
  if (operation.peer == world.rank) {
    refuse(
        format("{}: peer {} is this rank itself; use another rank", info.function, operation.peer));
  }
}

}  // namespace

void check_options(const GroupOptions& options, const World& world) {
  const auto check_positive = [&](const char* name, Duration value) {
    if (value > Duration{0}) return;
    refuse(format("process group \"{}\": {} must be positive, got {} ns", world.name, name,
                  value.count()));
  };
  check_positive("timeout", options.timeout);
  check_positive("open_timeout", options.open_timeout);
  for (std::size_t i = 0; i < options.hooks.size(); ++i) {
    if (options.hooks[i] == nullptr) {
      refuse(format("process group \"{}\": hooks[{}] is null", world.name, i));
    }
  }
}

void check_allocation(DType dtype, std::size_t count) {
  if (!is_dtype(dtype)) {
    refuse(format("allocate: unknown element type {}; valid types are 0 to {}",
                  static_cast<unsigned>(dtype), kDTypes - 1));
  }
  if (count > most_elements(dtype)) {
    refuse(format("allocate: count is {}, but a tensor can have at most {} elements of type {}",
                  count, most_elements(dtype), name_of(dtype)));
  }
}

void clear_unused(Operation& operation) {
  if (!is_operation(operation.collective)) return;
  const Layout layout = info_of(operation.collective).layout;
  const bool lists = operation.lists;
  const bool gathers = layout == Layout::gathered || layout == Layout::gathered_at_root;
  const bool splits = layout == Layout::split || layout == Layout::split_by_root;
  const bool exchanges = layout == Layout::exchanged;
  const bool has_output = layout == Layout::in_place || layout == Layout::received || splits ||
                          ((gathers || exchanges) && !lists);
  const bool has_input = layout == Layout::sent || gathers || ((splits || exchanges) && !lists);
  const auto empty = [](Tensor& tensor) {
    if (tensor.data != nullptr || tensor.count > 0 || tensor.owner) tensor = {};
  };
  if (!has_output) empty(operation.output);
  if (!has_input) empty(operation.input);
  if (lists) return;
  operation.outputs.clear();
  operation.inputs.clear();
}

void check(const Operation& operation, const World& world, const Backend& backend,
           std::string_view backend_name) {
  if (!is_operation(operation.collective)) {
    refuse(format("unknown operation {}; valid operations are 0 to {}",
                  static_cast<unsigned>(operation.collective), std::size(kOperations) - 1));
  }
  const OperationInfo& info = info_of(operation.collective);
  if (info.root != Root::none && operation.root >= world.size) {
    refuse(format("{}: root {} is not a rank of process group \"{}\", which has {} ranks",
                  info.function, operation.root, world.name, world.size));
  }
  if (info.message) check_message(operation, info, world);
  const Checked checked{operation, info, world};
  checked.check_layout();
  checked.check_streams();
  const Tensor& common = operation.common();
  if (info.reduces && operation.reduce.kind > ReduceOp::premul_sum) {
    refuse(format("{}: unknown reduction {}; valid reductions are 0 to {}", info.function,
                  static_cast<unsigned>(operation.reduce.kind),
                  static_cast<unsigned>(ReduceOp::premul_sum)));
  }
  if (info.reduces && !combines(operation.reduce, common.dtype)) {
    refuse(format("{}: reduction {} does not support elements of type {}", info.function,
                  name_of(operation.reduce), name_of(common.dtype)));
  }
  if (operation.timeout <= Duration{0}) {
    refuse(format("the time-out for {} must be positive, got {} ns", info.function,
                  operation.timeout.count()));
  }
  if (backend.supports(operation.collective, common.dtype, operation.reduce, common.device)) {
    const std::string refusal = info.message ? backend.refuses(operation) : std::string();
    if (refusal.empty()) return;
    client::throw_failure(
        failure(Code::unsupported, "{}: backend \"{}\" {}", info.function, backend_name, refusal));
  }
  const bool cpu = common.device.kind == Device::Kind::cpu;
  client::throw_failure(
      failure(Code::unsupported, "{}: backend \"{}\" does not support {}{} elements in {} memory",
              info.function, backend_name,
              info.reduces ? format("{} of ", name_of(operation.reduce)) : std::string(),
              name_of(common.dtype), cpu ? "cpu" : format("cuda:{}", common.device.index)));
}

}  // namespace c10dd::collectives
