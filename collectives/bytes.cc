// SPDX-License-Identifier: Apache-2.0
#include "collectives/bytes.h"

#include <memory>
#include <utility>

#include "client/errors.h"
#include "protocol/format.h"

namespace c10dd {
namespace {

Tensor tensor_of_bytes(std::string& bytes) {
  return {.data = bytes.data(), .count = bytes.size(), .dtype = DType::uint8};
}

std::vector<Tensor> tensors_of_bytes(std::vector<std::string>& all) {
  std::vector<Tensor> tensors;
  for (std::string& one : all) tensors.push_back(tensor_of_bytes(one));
  return tensors;
}

/// Returns empty strings of these lengths.
std::vector<std::string> room_for(const std::vector<std::int64_t>& lengths) {
  std::vector<std::string> all;
  for (const std::int64_t length : lengths) {
    all.emplace_back(static_cast<std::size_t>(length), '\0');
  }
  return all;
}

}  // namespace

std::vector<std::string> all_gather_bytes(ProcessGroup& group, std::string bytes) {
  std::vector<std::int64_t> own = {static_cast<std::int64_t>(bytes.size())};
  std::vector<std::int64_t> lengths(group.size());
  group.all_gather_single(tensor_of(lengths), tensor_of(own));
  std::vector<std::string> all = room_for(lengths);
  group.all_gather(tensors_of_bytes(all), tensor_of_bytes(bytes));
  return all;
}

std::vector<std::string> gather_bytes(ProcessGroup& group, std::string bytes, Rank root) {
  const bool is_root = group.rank() == root;
  std::vector<std::int64_t> own = {static_cast<std::int64_t>(bytes.size())};
  std::vector<std::int64_t> lengths(is_root ? group.size() : 0);
  group.gather_single(tensor_of(lengths), tensor_of(own), root);
  std::vector<std::string> all = room_for(lengths);
  group.gather(tensors_of_bytes(all), tensor_of_bytes(bytes), root);
  return all;
}

std::string broadcast_bytes(ProcessGroup& group, std::string bytes, Rank root) {
  std::vector<std::int64_t> length = {static_cast<std::int64_t>(bytes.size())};
  group.broadcast(tensor_of(length), root);
  bytes.resize(static_cast<std::size_t>(length[0]));
  group.broadcast(tensor_of_bytes(bytes), root);
  return bytes;
}

std::string scatter_bytes(ProcessGroup& group, std::vector<std::string> parts, Rank root) {
  const bool is_root = group.rank() == root;
  if (is_root && parts.size() != group.size()) {
    throw InvalidArgument(format(
        "scatter_bytes: got {} parts, but process group \"{}\" has {} ranks; pass one part for "
        "each rank",
        parts.size(), group.world().name, group.size()));
  }
  if (!is_root) parts.clear();
  std::vector<std::int64_t> lengths;
  for (const std::string& part : parts) lengths.push_back(static_cast<std::int64_t>(part.size()));
  std::vector<std::int64_t> own(1);
  group.scatter_single(tensor_of(own), tensor_of(lengths), root);
  std::string bytes(static_cast<std::size_t>(own[0]), '\0');
  group.scatter(tensor_of_bytes(bytes), tensors_of_bytes(parts), root);
  return bytes;
}

void send_bytes(ProcessGroup& group, std::string bytes, Rank peer, std::uint32_t tag) {
  // The tensors own their memory: if the first message fails, the second one may still be waiting.
  const auto own = std::make_shared<std::string>(std::move(bytes));
  const auto length = std::make_shared<std::int64_t>(static_cast<std::int64_t>(own->size()));
  Tensor size = tensor_of(length.get(), 1);
  size.owner = length;
  Tensor content = tensor_of_bytes(*own);
  content.owner = own;
  const WorkPtr first = group.isend(std::move(size), peer, tag);
  const WorkPtr second = group.isend(std::move(content), peer, tag);
  first->wait();
  second->wait();
}

ReceivedBytes recv_bytes(ProcessGroup& group, Rank peer, std::uint32_t tag) {
  std::vector<std::int64_t> length(1);
  const Received first = group.recv(tensor_of(length), peer, tag)->received();
  ReceivedBytes got{std::string(static_cast<std::size_t>(length[0]), '\0'), first.source,
                    first.tag};
  group.recv(tensor_of_bytes(got.bytes), first.source, first.tag);
  return got;
}

}  // namespace c10dd
