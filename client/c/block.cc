// SPDX-License-Identifier: Apache-2.0
// In front of the first part lies a pointer to the memory of the whole block.
#include "client/c/block.h"

#include <cstring>
#include <utility>

namespace c10dd::c {
namespace {

constexpr std::size_t kPointerBytes = sizeof(void*);

}  // namespace

struct Block::Root {
  std::pmr::monotonic_buffer_resource memory;
  bool has_first = false;
};

Block::Block() : root_(new Root) {}
Block::~Block() { delete root_; }

void* Block::part(std::size_t bytes) {
  constexpr std::size_t kHead = alignof(std::max_align_t);
  const std::size_t head = std::exchange(root_->has_first, true) ? 0 : kHead;
  char* const at = static_cast<char*>(root_->memory.allocate(head + bytes, kHead));
  if (head != 0) std::memcpy(at + head - kPointerBytes, &root_, kPointerBytes);
  std::memset(at + head, 0, bytes);
  return at + head;
}

char* Block::text(std::string_view text) {
  char* const at = static_cast<char*>(part(text.size() + 1));
  if (!text.empty()) std::memcpy(at, text.data(), text.size());
  return at;
}

void Block::release() { root_ = nullptr; }

void free_block(void* block) {
  if (block == nullptr) return;
  Block::Root* root = nullptr;
  std::memcpy(&root, static_cast<char*>(block) - kPointerBytes, kPointerBytes);
  delete root;
}

c10dd_bytes copy(std::string_view bytes) {
  Block block;
  char* const data = block.text(bytes);
  return {block.release(data), bytes.size()};
}

c10dd_list copy(const std::vector<std::string>& items) {
  if (items.empty()) return {nullptr, 0};
  Block block;
  c10dd_view* const views = block.array<c10dd_view>(items.size());
  for (std::size_t i = 0; i < items.size(); ++i) views[i] = block.view(items[i]);
  return {block.release(views), items.size()};
}

}  // namespace c10dd::c
