// SPDX-License-Identifier: Apache-2.0
// SharedRecord: a few numbers that threads write and read without a lock (a sequence lock).
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace c10dd::collectives {

/// A reader never gets a mix of two writes. Nobody blocks. Thread-safe.
template <std::size_t N>
class SharedRecord {
 public:
  using Words = std::array<std::uint64_t, N>;

  /// Returns false, and changes nothing, while another thread writes.
  bool write(const Words& words) noexcept {
    std::uint64_t version = version_.load(std::memory_order_relaxed);
    const bool is_mine = version % 2 == 0 && version_.compare_exchange_strong(
                                                 version, version + 1, std::memory_order_acquire);
    if (!is_mine) return false;
    // Whoever reads one of the new words sees afterwards that the version has changed.
    for (std::size_t i = 0; i < N; ++i) words_[i].store(words[i], std::memory_order_release);
    version_.store(version + 2, std::memory_order_release);
    return true;
  }

  /// Returns nothing before the first write, and if others write all the time.
  std::optional<Words> read() const noexcept {
    constexpr int kTries = 4;
    for (int i = 0; i < kTries; ++i) {
      const std::uint64_t version = version_.load(std::memory_order_acquire);
      Words words;
      for (std::size_t n = 0; n < N; ++n) words[n] = words_[n].load(std::memory_order_acquire);
      if (version_.load(std::memory_order_relaxed) != version) continue;
      if (version == 0) return std::nullopt;
      if (version % 2 == 0) return words;
    }
    return std::nullopt;
  }

 private:
  std::atomic<std::uint64_t> version_ = 0;  // odd: a thread writes
  std::array<std::atomic<std::uint64_t>, N> words_{};
};

}  // namespace c10dd::collectives
