// SPDX-License-Identifier: Apache-2.0
// Memory that the C interface returns: a block that c10dd_free() frees with all that it points to.
#pragma once

#include <cstddef>
#include <memory>
#include <memory_resource>
#include <string>
#include <string_view>
#include <vector>

#include <c10dd.h>

namespace c10dd::c {

/// Allocates the parts of one block. The first part is the block: release() returns it. Until then
/// the Block owns all parts. Throws std::bad_alloc.
class Block {
 public:
  Block();
  ~Block();
  Block(const Block&) = delete;

  /// Allocates `count` values, each of which is zero.
  template <class T>
  T* array(std::size_t count) {
    static_assert(alignof(T) <= alignof(std::max_align_t));
    return static_cast<T*>(part(count * sizeof(T)));
  }
  /// Copies a text, with a zero after it.
  char* text(std::string_view text);
  c10dd_view view(std::string_view bytes) { return {text(bytes), bytes.size()}; }

  /// Returns the first part, which is now the caller's.
  template <class T>
  T* release(T* first) {
    release();
    return first;
  }
  void release();

 private:
  struct Root;
  void* part(std::size_t bytes);
  friend void free_block(void* block);
  Root* root_;
};

void free_block(void* block);

/// Return copies in blocks of their own. A list without items has a null pointer.
c10dd_bytes copy(std::string_view bytes);
c10dd_list copy(const std::vector<std::string>& items);

}  // namespace c10dd::c
