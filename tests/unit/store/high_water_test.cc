// SPDX-License-Identifier: Apache-2.0
// The high-water file: the content of a slot, which of the two slots counts, and effects of damage.
#include "store/rocks/high_water.h"

#include <gtest/gtest.h>

#include <atomic>
#include <boost/crc.hpp>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <thread>

#include "store/rocks/mark_writer.h"
#include "tests/unit/comes_true.h"
#include "tests/unit/temporary_directory.h"

namespace c10dd::store {
namespace {

using Found = HighWaterFile::Found;
using test::comes_true;

const HighWaterMark kMark{
    1000, 9, 3, 700, 12, HighWaterMark::Holds::this_boot, 77, HighWaterMark::Renewal::restored};

HighWaterMark at(std::uint64_t sequence) {
  HighWaterMark mark;
  mark.sequence = sequence;
  return mark;
}

class HighWater : public testing::Test {
 protected:
  std::string path() const { return directory_.path() + "/highwater"; }
  HighWaterFile open() const { return HighWaterFile::open(directory_.path()).value(); }
  Bytes read() const {
    std::ifstream file(path(), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void write(const Bytes& bytes) const { std::ofstream(path(), std::ios::binary) << bytes; }

  TemporaryDirectory directory_;
};

TEST(HighWaterSlot, ComesBackAsItWas) {
  const Result<HighWaterSlot> slot = decode_high_water_slot(encode_high_water_slot({5, kMark}));
  ASSERT_TRUE(slot) << slot.error().detail;
  EXPECT_EQ(slot->turn, 5u);
  EXPECT_EQ(slot->mark, kMark);
}

TEST(HighWaterSlot, EveryChangedBitOfItIsNoticed) {
  const Bytes intact = encode_high_water_slot({5, kMark});
  const std::size_t used = intact.find_last_not_of('\0') + 1;
  for (std::size_t bit = 0; bit < used * 8; ++bit) {
    Bytes changed = intact;
    changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ (1 << bit % 8));
    ASSERT_FALSE(decode_high_water_slot(changed)) << "bit " << bit;
  }
  for (std::size_t size = 0; size < used; ++size) {
    ASSERT_FALSE(decode_high_water_slot(intact.substr(0, size))) << size << " bytes";
    Bytes zeroed = intact;
    zeroed.replace(size, Bytes::npos, kHighWaterSlotBytes - size, '\0');
    const bool same = zeroed == intact;
    ASSERT_EQ(decode_high_water_slot(zeroed).has_value(), same) << "zeros from " << size;
  }
}

TEST_F(HighWater, IsNothingThenWhatWasWrittenLast) {
  EXPECT_EQ(open().found(), Found::nothing);
  EXPECT_FALSE(std::filesystem::exists(path())) << "opening touches nothing";
  {
    HighWaterFile file = open();
    for (std::uint64_t sequence = 1; sequence <= 5; ++sequence) {
      ASSERT_TRUE(file.write(at(sequence)));
      EXPECT_EQ(open().mark(), at(sequence));
    }
    ASSERT_TRUE(file.write(kMark));
  }
  EXPECT_EQ(open().found(), Found::mark);
  EXPECT_EQ(open().mark(), kMark);
  EXPECT_FALSE(std::filesystem::exists(path() + ".new"));
}

TEST_F(HighWater, TornSlotLeavesTheOlderAndTwoAreDamage) {
  HighWaterFile file = open();
  ASSERT_TRUE(file.write(at(1)));
  ASSERT_TRUE(file.write(at(2)));
  ASSERT_TRUE(file.write(at(3)));
  const Bytes intact = read();
  ASSERT_EQ(intact.size(), 2 * kHighWaterSlotBytes);
  std::multiset<std::uint64_t> left;
  for (const std::size_t offset : {std::size_t{40}, kHighWaterSlotBytes + 40}) {
    Bytes torn = intact;
    torn[offset] = static_cast<char>(~torn[offset]);
    write(torn);
    ASSERT_EQ(open().found(), Found::mark);
    left.insert(open().mark().sequence);
  }
  EXPECT_EQ(left, (std::multiset<std::uint64_t>{2, 3}));

  for (const Bytes& bytes : {Bytes(), Bytes("text"), Bytes(2 * kHighWaterSlotBytes, '\0')}) {
    write(bytes);
    EXPECT_EQ(open().found(), Found::damage);
  }
  HighWaterFile damaged = open();
  ASSERT_TRUE(damaged.write(at(9)));
  EXPECT_EQ(open().mark(), at(9));
}

TEST_F(HighWater, AFileThatIsNoLongerUnderItsNameIsNoMark) {
  HighWaterFile file = open();
  ASSERT_TRUE(file.write(at(1)));
  const Bytes bytes = read();
  std::filesystem::rename(path(), path() + ".away");
  EXPECT_EQ(file.write(at(2)).error().code, Code::unavailable);
  write(bytes);
  EXPECT_EQ(file.write(at(3)).error().code, Code::unavailable) << "a copy";
  std::filesystem::rename(path() + ".away", path());
  EXPECT_TRUE(file.write(at(4)));
}

TEST_F(HighWater, NewerFormatNamesBoth) {
  Bytes slot = encode_high_water_slot({5, kMark});
  slot[8] = 2;
  write(slot);
  EXPECT_EQ(open().found(), Found::damage) << "a format without its checksum is damage";
  const std::size_t end = slot.find_last_not_of('\0') + 1 - sizeof(std::uint32_t);
  boost::crc_32_type crc;
  crc.process_bytes(slot.data(), end);
  const std::uint32_t sum = crc.checksum();
  std::memcpy(slot.data() + end, &sum, sizeof sum);
  write(slot);
  const auto newer = HighWaterFile::open(directory_.path());
  ASSERT_FALSE(newer);
  EXPECT_EQ(newer.error().code, Code::version_unsupported);
  EXPECT_EQ(newer.error().detail, path() +
                                      " has format 2, this daemon knows formats up to 1; start "
                                      "the newer daemon that wrote it");
}

TEST_F(HighWater, WriterFollowsAndClosesExactly) {
  HighWaterFile file = open();
  ASSERT_TRUE(file.write(at(1)));
  {
    MarkWriter writer(std::move(file), [](HighWaterMark& mark) { mark.log_number = 4; });
    for (std::uint64_t sequence = 2; sequence <= 10'000; ++sequence) {
      ASSERT_TRUE(writer.note(at(sequence)));
    }
    EXPECT_EQ(writer.noted().sequence, 10'000u);
    const std::uint64_t written = open().mark().sequence;
    EXPECT_LE(written, 10'000u);
    ASSERT_TRUE(writer.close(at(10'001)));
  }
  EXPECT_EQ(open().mark().sequence, 10'001u);
  EXPECT_EQ(open().mark().log_number, 4u);
}

constexpr std::chrono::milliseconds kNoPause{0};

TEST_F(HighWater, WriterWritesEachNewMarkByItselfAndOnce) {
  HighWaterFile file = open();
  ASSERT_TRUE(file.write(at(1)));
  std::atomic<std::uint64_t> writes = 0;
  MarkWriter writer(
      std::move(file), [&](HighWaterMark&) { ++writes; }, kNoPause);
  for (std::uint64_t sequence = 2; sequence <= 101; ++sequence) {
    ASSERT_TRUE(writer.note(at(sequence)));
    ASSERT_TRUE(comes_true([&] { return open().mark().sequence == sequence; })) << sequence;
    ASSERT_EQ(writes, sequence - 1);
  }
}

TEST_F(HighWater, WriterThatCannotWriteFailsEachLaterNoteAndWritesNoMore) {
  HighWaterFile file = open();
  ASSERT_TRUE(file.write(at(1)));
  std::atomic<int> writes = 0;
  MarkWriter writer(
      std::move(file), [&](HighWaterMark&) { ++writes; }, kNoPause);
  std::filesystem::rename(path(), path() + ".away");
  std::uint64_t sequence = 1;
  ASSERT_TRUE(comes_true([&] { return !writer.note(at(++sequence)); })) << "the file is gone";
  std::filesystem::rename(path() + ".away", path());
  const int before = writes;
  for (int i = 0; i < 1'000; ++i) {
    const Result<void> noted = writer.note(at(++sequence));
    ASSERT_FALSE(noted);
    EXPECT_EQ(noted.error().code, Code::unavailable);
    std::this_thread::yield();
  }
  EXPECT_EQ(writes, before);
  EXPECT_FALSE(writer.close(at(1'000'000)));
  EXPECT_LT(open().mark().sequence, 1'000'000u);
}

TEST_F(HighWater, BootsHaveNumbers) {
  EXPECT_NE(boot_number(), 0u);
  EXPECT_EQ(boot_number(), boot_number());
}

}  // namespace
}  // namespace c10dd::store
