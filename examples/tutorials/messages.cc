// SPDX-License-Identifier: Apache-2.0
// Sends a number from rank 0 to rank 1: first with calls that block, then with calls that return at
// once. Then rank 0 receives an answer without saying from whom.
#include <c10dd/c10dd.h>

#include <cstdint>
#include <cstdio>
#include <vector>

namespace {

void blocking(c10dd::ProcessGroup& group) {
  std::vector<std::int64_t> number = {group.rank() == 0 ? 43523 : 0};
  if (group.rank() == 0) {
    group.send(c10dd::tensor_of(number), 1);
  } else {
    group.recv(c10dd::tensor_of(number), 0);
  }
  std::printf("blocking: rank %u has %lld\n", group.rank(), static_cast<long long>(number[0]));
}

void immediate(c10dd::ProcessGroup& group) {
  const c10dd::Rank peer = 1 - group.rank();
  std::vector<std::int64_t> mine = {100 + group.rank()};
  std::vector<std::int64_t> theirs(1);
  // Both ranks send first. With send() instead of isend(), each would wait for the other for ever.
  const c10dd::WorkPtr sent = group.isend(c10dd::tensor_of(mine), peer);
  const c10dd::WorkPtr received = group.irecv(c10dd::tensor_of(theirs), peer);
  sent->wait();
  received->wait();
  std::printf("immediate: rank %u has %lld\n", group.rank(), static_cast<long long>(theirs[0]));
}

void from_anybody(c10dd::ProcessGroup& group) {
  std::vector<float> answer(10, 0.5F);
  if (group.rank() != 0) {
    group.send(c10dd::tensor_of(answer.data(), 3), 0, 7);
    return;
  }
  const auto work = group.recv(c10dd::tensor_of(answer), c10dd::kAnyRank, c10dd::kAnyTag);
  const c10dd::Received got = work->received();
  std::printf("any: %zu elements from rank %u, tag %u\n", got.count, got.source, got.tag);
}

}  // namespace

int main() {
  try {
    const auto group = c10dd::ProcessGroup::open(c10dd::Client::from_environment());
    blocking(*group);
    immediate(*group);
    from_anybody(*group);
    group->barrier();  // a rank that leaves ends the operations that wait for it
  } catch (const c10dd::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
