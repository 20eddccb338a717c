// SPDX-License-Identifier: Apache-2.0
// Immutable bytes that many owners share, for keys and values. The daemon stores a value once: the
// key, the history for watches and the replies share it.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>
#include <new>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace c10dd {

/// Bytes in one of two forms. An owning Blob counts the references to a buffer, which copies share.
/// A borrowing Blob points to bytes of somebody else: moving it borrows the same bytes, but copying
/// it makes an owning Blob. So whoever keeps a copy need not know what it is a copy of.
/// Holds less than 4 GiB. Thread-safe like std::shared_ptr: copies may be used on several threads.
class Blob {
 public:
  Blob() = default;
  Blob(std::string_view bytes) { own(bytes); }
  template <class Text>
  requires std::is_convertible_v<const Text&, std::string_view> &&
      (!std::is_same_v<Text, Blob>)&&(!std::is_same_v<Text, std::string_view>)
          Blob(const Text& bytes)
      : Blob(std::string_view(bytes)) {}

  /// Returns a Blob that points to `bytes`. It must not be used after `bytes` have gone.
  static Blob borrow(std::string_view bytes) {
    Blob blob;
    blob.data_ = bytes.data();
    blob.size_ = static_cast<std::uint32_t>(bytes.size());
    return blob;
  }

  Blob(const Blob& other) {
    if (other.owns_) {
      share(other);
    } else {
      own(other);
    }
  }
  Blob(Blob&& other) noexcept { swap(other); }
  Blob& operator=(const Blob& other) {
    Blob copy(other);
    swap(copy);
    return *this;
  }
  Blob& operator=(Blob&& other) noexcept {
    Blob moved(std::move(other));
    swap(moved);
    return *this;
  }
  ~Blob() {
    if (owns_) release();
  }

  const char* data() const { return data_; }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  std::string_view view() const { return {data_, size_}; }
  operator std::string_view() const { return view(); }
  /// Copies the bytes.
  std::string str() const { return std::string(view()); }
  operator std::string() const { return str(); }

  template <class Text>
  requires std::is_convertible_v<const Text&, std::string_view>
  friend bool operator==(const Blob& a, const Text& b) { return a.view() == std::string_view(b); }

 private:
  using Count = std::atomic<std::uint32_t>;

  /// The buffer begins with the number of references; the bytes follow.
  Count& references() const {
    return *std::launder(reinterpret_cast<Count*>(const_cast<char*>(data_) - sizeof(Count)));
  }
  void own(std::string_view bytes) {
    if (bytes.empty()) return;
    char* const buffer = static_cast<char*>(::operator new(sizeof(Count) + bytes.size()));
    new (buffer) Count(1);
    std::memcpy(buffer + sizeof(Count), bytes.data(), bytes.size());
    data_ = buffer + sizeof(Count);
    size_ = static_cast<std::uint32_t>(bytes.size());
    owns_ = true;
  }
  void share(const Blob& other) {
    data_ = other.data_;
    size_ = other.size_;
    owns_ = true;
    references().fetch_add(1, std::memory_order_relaxed);
  }
  void release() {
    if (references().fetch_sub(1, std::memory_order_acq_rel) > 1) return;
    ::operator delete(const_cast<char*>(data_) - sizeof(Count));
  }
  void swap(Blob& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(owns_, other.owns_);
  }

  const char* data_ = "";
  std::uint32_t size_ = 0;
  bool owns_ = false;
};

/// Orders byte strings of any type, so that a table of Blobs can be searched with other types.
struct BytesLess {
  using is_transparent = void;  // NOLINT(readability-identifier-naming)
  bool operator()(std::string_view a, std::string_view b) const { return a < b; }
};

}  // namespace c10dd
