// SPDX-License-Identifier: Apache-2.0
// The Gloo backend, built as the module libc10dd_gloo.so. Each collective is one call of Gloo's
// algorithm, over a Transport that can be stopped.
#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/alltoall.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/common/error.h>
#include <gloo/context.h>
#include <gloo/gather.h>
#include <gloo/reduce.h>
#include <gloo/scatter.h>
#include <gloo/transport/device.h>

#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

#include "collectives/agreement.h"
#include "collectives/backend.h"
#include "collectives/gloo/exchange.h"
#include "collectives/gloo/mesh.h"
#include "collectives/gloo/messages.h"
#include "collectives/gloo/reduce_scatter.h"
#include "collectives/gloo/sigpipe.h"
#include "collectives/gloo/transport.h"
#include "collectives/reduce.h"
#include "collectives/wide_average.h"
#include "protocol/format.h"

namespace c10dd::collectives {
namespace {

/// Lets Gloo's algorithms use the connections of a mesh.
class MeshContext final : public ::gloo::Context {
 public:
  explicit MeshContext(const Mesh& mesh) : Context(mesh.transport->rank, mesh.transport->size) {
    device_ = mesh.device;
    transportContext_ = mesh.transport;
  }
};

/// Returns the tag by which Gloo matches messages: the low bits of the sequence, and a hash of the
/// arguments. If two ranks issue different collectives, their tags almost surely differ. So each
/// rank ignores the other's messages and times out, with a failure that names the awaited ranks.
/// With equal tags, Gloo would end the process when a message of the wrong size arrives.
std::uint32_t tag_of(const Operation& operation) {
  return static_cast<std::uint32_t>((operation.sequence & 0xfff) << 20 |
                                    (hash_of(operation) & 0xfffff));
}

/// Copies the elements of a tensor to `memory`, and returns where they are.
void* copy_of(const Tensor& tensor, std::vector<std::byte>& memory) {
  const auto* const bytes = static_cast<const std::byte*>(tensor.data);
  memory.assign(bytes, bytes + tensor.bytes());
  return memory.data();
}

class GlooBackend final : public Backend {
 public:
  explicit GlooBackend(const Mesh& mesh)
      : transport_(mesh.transport),
        context_(std::make_shared<MeshContext>(mesh)),
        messages_(std::make_shared<Messages>(transport_)) {
    messages_->open();
  }

  ~GlooBackend() override { messages_->close(); }

  /// Runs a collective on the calling thread. If the transport is stopped, fails with the reason
  /// for the stop.
  void start(const Operation& operation, Completion& completion) override {
    if (info_of(operation.collective).message) return messages_->start(operation, completion);
    completion.complete(run(operation));
  }

  void abort(const std::string& reason) override {
    transport_->stop(failure(Code::aborted, "gloo group aborted: {}", reason),
                     failure(Code::aborted, "rank {} aborted: {}", transport_->rank, reason),
                     Transport::Closing::now);
  }

  std::string describe() const override {
    return format("gloo over TCP, {}", context_->getDevice()->str());
  }

 private:
  Result<void> run(const Operation& operation) {
    const auto begun = transport_->begin(operation);
    if (!begun) return begun;
    const NoSigpipe no_sigpipe;
    try {
      call_gloo(operation, tag_of(operation));
    } catch (const Stopped&) {
      // The transport has the reason.
    } catch (const ::gloo::IoException& error) {
      transport_->stop_for_lost_peer("", error.what());
    } catch (const std::exception& error) {
      const std::string text = std::string("gloo: ") + error.what();
      transport_->stop(failure(Code::internal, text),
                       failure(Code::aborted, "rank {} stopped: {}", transport_->rank, text),
                       Transport::Closing::now);
    }
    transport_->end();
    if (auto reason = transport_->stopped()) return *reason;
    return {};
  }

  void call_gloo(const Operation& operation, std::uint32_t tag) {
    if (WideAverage::suits(operation)) {
      const WideAverage wide(operation);
      call_gloo(wide.operation(), tag);
      if (operation.collective != Collective::reduce || operation.root == rank()) wide.store();
      return;
    }
    if (operation.lists && operation.collective != Collective::reduce_scatter) {
      return exchange(context_, operation, tag);
    }
    switch (operation.collective) {
      case Collective::all_reduce:
        return all_reduce(operation.output, operation.reduce, tag);
      case Collective::broadcast:
        return broadcast(operation.output, operation.root, tag);
      case Collective::reduce:
        return reduce(operation.output, operation.root, operation.reduce, tag);
      case Collective::all_gather:
        return all_gather(operation.output, operation.input, tag);
      case Collective::reduce_scatter:
        return reduce_scatter(operation, tag);
      case Collective::gather:
        return gather(operation.output, operation.input, operation.root, tag);
      case Collective::scatter:
        return scatter(operation.output, operation.input, operation.root, tag);
      case Collective::all_to_all:
        return all_to_all(operation.output, operation.input, tag);
      case Collective::barrier:
        return barrier(tag);
      case Collective::send:  // Messages runs them
      case Collective::recv:
        return;
    }
  }

  void all_reduce(const Tensor& tensor, ReduceOp op, std::uint32_t tag) {
    ::gloo::AllreduceOptions options(context_);
    // Gloo uses only the size of the type.
    with_dtype(tensor.dtype, [&]<class T>(std::type_identity<T>) {
      options.setOutput(static_cast<T*>(tensor.data), tensor.count);
    });
    options.setReduceFunction(reduce_function(tensor.dtype, op));
    options.setTag(tag);
    prepare(tensor, op, static_cast<Rank>(context_->size));
    ::gloo::allreduce(options);
    finish(tensor, op, static_cast<Rank>(context_->size));
  }

  void broadcast(const Tensor& tensor, Rank root, std::uint32_t tag) {
    ::gloo::BroadcastOptions options(context_);
    options.setOutput(static_cast<std::byte*>(tensor.data), tensor.bytes());
    options.setRoot(static_cast<int>(root));
    options.setTag(tag);
    ::gloo::broadcast(options);
  }

  void all_gather(const Tensor& output, const Tensor& input, std::uint32_t tag) {
    ::gloo::AllgatherOptions options(context_);
    const auto rank = static_cast<std::size_t>(context_->rank);
    // If no input is set, Gloo takes the input from this rank's place in the output. An input that
    // is already in that place must not be copied onto itself.
    if (output.slice(rank * input.count, input.count).data != input.data) {
      options.setInput(static_cast<std::byte*>(input.data), input.bytes());
    }
    options.setOutput(static_cast<std::byte*>(output.data), output.bytes());
    options.setTag(tag);
    ::gloo::allgather(options);
  }

  void reduce(Tensor tensor, Rank root, ReduceOp op, std::uint32_t tag) {
    // Gloo's algorithm writes into the tensors of all ranks, but only the root's may change.
    std::vector<std::byte> copy;
    if (root != rank()) {
      tensor.data = copy_of(tensor, copy);
    }
    ::gloo::ReduceOptions options(context_);
    with_dtype(tensor.dtype, [&]<class T>(std::type_identity<T>) {
      options.setOutput(static_cast<T*>(tensor.data), tensor.count);
    });
    options.setRoot(static_cast<int>(root));
    options.setReduceFunction(reduce_function(tensor.dtype, op));
    options.setTag(tag);
    prepare(tensor, op, static_cast<Rank>(context_->size));
    ::gloo::reduce(options);
    if (root == rank()) finish(tensor, op, static_cast<Rank>(context_->size));
  }

  void reduce_scatter(const Operation& operation, std::uint32_t tag) {
    const Tensor& output = operation.output;
    if (operation.lists) {
      return ring_reduce_scatter(context_, output, operation.inputs, operation.reduce, tag);
    }
    std::vector<Tensor> parts;
    for (std::size_t i = 0; i < static_cast<std::size_t>(context_->size); ++i) {
      parts.push_back(operation.input.slice(i * output.count, output.count));
    }
    ring_reduce_scatter(context_, output, parts, operation.reduce, tag);
  }

  void gather(const Tensor& output, const Tensor& input, Rank root, std::uint32_t tag) {
    ::gloo::GatherOptions options(context_);
    // On the root, Gloo copies the input into the output, so the input must not be there already.
    Tensor from = input;
    std::vector<std::byte> copy;
    if (root == rank() && output.slice(rank() * input.count, input.count).data == input.data) {
      from.data = copy_of(input, copy);
    }
    options.setInput(static_cast<std::byte*>(from.data), from.bytes());
    if (root == rank()) {
      options.setOutput(static_cast<std::byte*>(output.data), output.bytes());
    }
    options.setRoot(static_cast<int>(root));
    options.setTag(tag);
    ::gloo::gather(options);
  }

  void scatter(const Tensor& output, const Tensor& input, Rank root, std::uint32_t tag) {
    ::gloo::ScatterOptions options(context_);
    Tensor own = output;
    std::vector<std::byte> copy;
    if (root == rank()) {
      std::vector<std::byte*> parts;
      for (std::size_t i = 0; i < static_cast<std::size_t>(context_->size); ++i) {
        parts.push_back(static_cast<std::byte*>(input.slice(i * output.count, 0).data));
      }
      options.setInputs(parts, output.bytes());
      // On the root, Gloo copies its part into the output, so the output must not be that part.
      if (parts[rank()] == output.data) own.data = copy_of(output, copy);
    }
    options.setOutput(static_cast<std::byte*>(own.data), own.bytes());
    options.setRoot(static_cast<int>(root));
    options.setTag(tag);
    ::gloo::scatter(options);
  }

  void all_to_all(const Tensor& output, const Tensor& input, std::uint32_t tag) {
    ::gloo::AlltoallOptions options(context_);
    options.setInput(static_cast<std::byte*>(input.data), input.bytes());
    options.setOutput(static_cast<std::byte*>(output.data), output.bytes());
    options.setTag(tag);
    ::gloo::alltoall(options);
  }

  void barrier(std::uint32_t tag) {
    ::gloo::BarrierOptions options(context_);
    options.setTag(tag);
    ::gloo::barrier(options);
  }

  Rank rank() const { return static_cast<Rank>(context_->rank); }

  const std::shared_ptr<Transport> transport_;
  const std::shared_ptr<MeshContext> context_;
  const std::shared_ptr<Messages> messages_;
};

Result<std::unique_ptr<Backend>> open_gloo(const BackendSetup& setup) {
  auto mesh = connect_mesh(setup);
  if (!mesh) return mesh.error();
  return std::unique_ptr<Backend>(std::make_unique<GlooBackend>(std::move(*mesh)));
}

}  // namespace
}  // namespace c10dd::collectives

extern "C" __attribute__((visibility("default"))) const c10dd::client::ModuleHead*
c10dd_backend_module() {
  static const c10dd::collectives::BackendModule module = {.open = &c10dd::collectives::open_gloo};
  return &module.head;
}
