// SPDX-License-Identifier: Apache-2.0
// A job's own rows, damaged: bytes changed, rows lost, values exchanged, strange rows added, fields
// of groups changed. The job refuses them, or works on and stores what it can load again.
#include "protocol/fields.h"
#include "tests/fuzz/job_world.h"
#include "tests/fuzz/target.h"

namespace {

using c10dd::Bytes;
using c10dd::fuzz::Input;
using StoredRows = c10dd::fuzz::JobWorld::Rows;

StoredRows::iterator any_row(StoredRows& rows, Input& in) {
  return std::next(rows.begin(), static_cast<std::ptrdiff_t>(in.below(rows.size())));
}

/// Another value for one field, which the bytes alone would seldom hit.
template <class T>
Bytes with_other_field(const Bytes& value, Input& in) {
  auto row = c10dd::wire::decode<T>(value);
  if (!row) return value;
  T other;
  c10dd::fuzz::Draw(in).fill(other);
  using Fields = boost::describe::describe_members<T, boost::describe::mod_public>;
  std::size_t choice = in.below(boost::mp11::mp_size<Fields>::value);
  boost::mp11::mp_for_each<Fields>([&](auto field) {
    if (choice-- == 0) (*row).*field.pointer = std::move(other.*field.pointer);
  });
  return c10dd::wire::encode(*row);
}

/// Nothing where there is no group.
void damage_group(StoredRows& rows, Input& in) {
  std::vector<StoredRows::iterator> of_groups;
  for (auto row = rows.begin(); row != rows.end(); ++row) {
    const bool owned = c10dd::core::Groups::owns({c10dd::Row::Kind::put, row->first, {}});
    if (owned) of_groups.push_back(row);
  }
  if (of_groups.empty()) return;
  auto& [key, value] = *of_groups[in.byte() % of_groups.size()];
  if (key[0] == 'g') value = with_other_field<c10dd::core::GroupFacts>(value, in);
  if (key[0] == 'm') value = with_other_field<c10dd::core::GroupMember>(value, in);
  if (key[0] == 'l') value = with_other_field<c10dd::core::MemberList>(value, in);
}

void damage(StoredRows& rows, Input& in) {
  const std::size_t choice = in.below(7);
  if (choice == 6) return damage_group(rows, in);
  if (rows.empty() || choice == 0) {
    Bytes key(in.text());
    rows[std::move(key)] = in.text();
    return;
  }
  const auto row = any_row(rows, in);
  Bytes key = row->first;
  Bytes value = row->second;
  Bytes& bytes = choice == 1 ? key : value;
  const std::size_t at = bytes.empty() ? 0 : in.byte() % bytes.size();
  if (choice <= 2) {
    if (!bytes.empty()) bytes[at] = static_cast<char>(in.byte());
  } else if (choice == 3) {
    value.resize(at);
  } else if (choice == 4) {
    value = any_row(rows, in)->second;
  }
  if (choice == 1 || choice == 5) rows.erase(row);
  if (choice != 5) rows[key] = std::move(value);
}

}  // namespace

C10DD_FUZZ(job_rows) {
  Input in(data, size);
  c10dd::fuzz::JobWorld world(in);
  for (std::size_t n = in.byte(); n > 0; --n) world.step();
  StoredRows rows = world.rows();
  for (std::size_t n = in.below(16); n > 0; --n) damage(rows, in);
  if (!world.replace(std::move(rows))) return 0;
  while (!in.empty()) world.step();
  world.finish();
  return 0;
}
