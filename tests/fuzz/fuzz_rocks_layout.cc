// SPDX-License-Identifier: Apache-2.0
// Keys and heads as RocksDB holds them: a key leads back to its job, stands between the borders
// of that job, and a head moves only forward whatever batches come.
#include "store/rocks/layout.h"
#include "tests/fuzz/draw.h"
#include "tests/fuzz/target.h"

C10DD_FUZZ(rocks_layout) {
  namespace store = c10dd::store;
  c10dd::fuzz::Input in(data, size);
  c10dd::fuzz::Draw draw(in);
  const c10dd::JobNumber job = in.number();
  const std::string_view prefix = in.text();
  const std::string_view rest = in.text();
  const c10dd::Bytes key = store::tagged(store::kRowTag, job, c10dd::Bytes(prefix).append(rest));
  const c10dd::Bytes border = store::tagged(store::kRowTag, job, prefix);
  C10DD_ASSERT(store::job_of(store::tagged(store::kHeadTag, job)) == job);
  C10DD_ASSERT(key.starts_with(border) && border <= key && key < store::after(border));
  C10DD_ASSERT(key.size() == store::kTagBytes + prefix.size() + rest.size());

  const std::string_view stored = in.text();
  const auto decoded = c10dd::wire::decode<store::JobHead>(stored);
  store::JobHead head = decoded ? *decoded : store::JobHead{};
  const auto again = c10dd::wire::decode<store::JobHead>(c10dd::wire::encode(head));
  C10DD_ASSERT(again && *again == head);

  store::HeadCheck walk(head);
  while (!in.empty()) {
    const store::JobHead before = head;
    store::JobBatch batch;
    draw.fill(batch.epoch);
    draw.fill(batch.from_rev);
    draw.fill(batch.to_rev);
    if (in.byte() < 0x80) batch.epoch = head.epoch;
    if (in.byte() < 0x80) batch.from_rev = head.revision;
    if (batch.to_rev < batch.from_rev) continue;
    if (batch.to_rev > batch.from_rev) batch.rows.push_back({});
    const store::BatchCheck verdict = walk.step(batch);
    C10DD_ASSERT(head.epoch == before.epoch && head.revision >= before.revision);
    C10DD_ASSERT((verdict == store::BatchCheck::apply) == (head.revision > before.revision));
    C10DD_ASSERT(verdict == store::BatchCheck::fenced || batch.epoch == head.epoch);
    C10DD_ASSERT(verdict != store::BatchCheck::apply || head.repeat_from <= batch.from_rev);
  }
  return 0;
}
