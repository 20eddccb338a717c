// SPDX-License-Identifier: Apache-2.0
// What a group over NCCL says if something is missing on the machine. In a program of its own,
// because a driver that was started once stays.
#include <cstdlib>

#include "tests/unit/collectives/nccl/nccl_ranks.h"

namespace c10dd {
namespace {

using test::contains;
using test::error_of;
using test::open_groups;
using test::over_nccl;

class NcclMissing : public test::NcclTest {
 protected:
  static std::string error() {
    return error_of([] { open_groups(2, over_nccl()); });
  }
};

// One test, because the order counts: the last step starts the driver.
TEST_F(NcclMissing, EachErrorSaysInOneSentenceWhatIsMissingAndWhatToDo) {
  setenv("C10DD_CUDA_LIBRARY", "/nonexistent/libcuda.so.1", 1);
  std::string text = error();
  EXPECT_TRUE(contains(text, "rank 0: nccl: the NVIDIA driver cannot be loaded: ")) << text;
  EXPECT_TRUE(contains(text, "or choose backend gloo")) << text;
  unsetenv("C10DD_CUDA_LIBRARY");

  cuda.init_status = 100;
  text = error();
  EXPECT_TRUE(contains(text,
                       "no GPU can be used: no CUDA-capable device is detected; check "
                       "nvidia-smi and CUDA_VISIBLE_DEVICES"))
      << text;
  cuda.init_status = 0;
  cuda.devices = 0;
  text = error();
  EXPECT_TRUE(contains(text, "no GPU can be used: the driver reports 0 devices")) << text;
  cuda.devices = 8;

  setenv("C10DD_NCCL_LIBRARY", "/nonexistent/libnccl.so.2", 1);
  text = error();
  EXPECT_TRUE(contains(text, "the NCCL library cannot be loaded: /nonexistent/libnccl.so.2"))
      << text;
  EXPECT_TRUE(contains(text, "set C10DD_NCCL_LIBRARY to the path of libnccl.so.2")) << text;
  setenv("C10DD_NCCL_LIBRARY", "libc.so.6", 1);
  text = error();
  EXPECT_TRUE(contains(text, "lacks the function ncclGetVersion; c10dd needs NCCL 2.23")) << text;
  unsetenv("C10DD_NCCL_LIBRARY");

  EXPECT_EQ(error(), "no error");
}

}  // namespace
}  // namespace c10dd
