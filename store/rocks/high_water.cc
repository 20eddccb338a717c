// SPDX-License-Identifier: Apache-2.0
#include "store/rocks/high_water.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "protocol/fields.h"

namespace c10dd::store {
namespace {

constexpr SlotFormat kMarkFormat{"c10ddhw\n", 1};

Result<HighWaterMark> decode_mark(std::string_view body) {
  HighWaterMark mark;
  const bool read = wire::decode_into(mark, body).has_value();
  if (!read || mark.holds > HighWaterMark::Holds::never ||
      mark.renewal > HighWaterMark::Renewal::rolled_back) {
    return failure(Code::malformed, "the slot has an invalid mark");
  }
  return mark;
}

}  // namespace

Bytes encode_high_water_slot(const HighWaterSlot& slot) {
  return encode_file_slot(kMarkFormat, {slot.turn, wire::encode(slot.mark)});
}

Result<HighWaterSlot> decode_high_water_slot(std::string_view bytes) {
  const Result<FileSlot> slot = decode_file_slot(kMarkFormat, bytes);
  if (!slot) return slot.error();
  const Result<HighWaterMark> mark = decode_mark(slot->body);
  if (!mark) return mark.error();
  return HighWaterSlot{slot->turn, *mark};
}

Result<HighWaterFile> HighWaterFile::open(const std::string& directory) {
  Result<SlotFile> file =
      SlotFile::open(path_in(directory), kMarkFormat,
                     [](std::string_view body) { return decode_mark(body).has_value(); });
  if (!file) return file.error();
  HighWaterFile out(std::move(*file));
  if (out.found() == Found::mark) out.mark_ = *decode_mark(out.file_.body());
  return out;
}

HighWaterFile::Found HighWaterFile::found() const {
  if (file_.found() == SlotFile::Found::nothing) return Found::nothing;
  return file_.found() == SlotFile::Found::value ? Found::mark : Found::damage;
}

void HighWaterFile::expect(const HighWaterMark& acknowledged) {
  mark_.sequence = std::max(mark_.sequence, acknowledged.sequence);
  mark_.jobs = std::max(mark_.jobs, acknowledged.jobs);
  mark_.revisions = std::max(mark_.revisions, acknowledged.revisions);
  mark_.epochs = std::max(mark_.epochs, acknowledged.epochs);
}

Result<void> HighWaterFile::write(const HighWaterMark& mark) {
  mark_ = mark;
  return file_.write(wire::encode(mark));
}

std::uint64_t boot_number() {
  const int file = ::open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  std::array<char, 64> text{};
  const ssize_t size = ::read(file, text.data(), text.size());
  ::close(file);
  std::string digits;
  for (ssize_t i = 0; i < size && digits.size() < 16; ++i) {
    if (text[static_cast<std::size_t>(i)] != '-') digits += text[static_cast<std::size_t>(i)];
  }
  std::uint64_t number = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), number, 16);
  return number;
}

}  // namespace c10dd::store
