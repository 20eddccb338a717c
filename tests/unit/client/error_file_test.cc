// SPDX-License-Identifier: Apache-2.0
// How c10drun reads a worker's error file, which may contain anything.
#include "client/launcher/error_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "client/launcher/failure_report.h"
#include "tests/unit/temporary_directory.h"

namespace c10dd::run {
namespace {

class ErrorFile : public testing::Test {
 protected:
  std::string after(const std::string& text) {
    std::ofstream(path_, std::ios::binary) << text;
    return read_error_file(path_);
  }

  TemporaryDirectory folder_;
  const std::string path_ = folder_.path() + "/error.json";
};

TEST_F(ErrorFile, SaysTheMessageAsTorchElasticWritesIt) {
  EXPECT_EQ(after(R"({"message": {"message": "ValueError: loss is nan", "errorCode": 1,
                      "extraInfo": {"py_callstack": "Traceback ...", "timestamp": "1732233600"}}})"),
            "ValueError: loss is nan");
}

TEST_F(ErrorFile, SaysThePlainMessageOfOthers) {
  EXPECT_EQ(after(R"({"message": "out of memory", "errorCode": 7})"), "out of memory");
}

TEST_F(ErrorFile, IsNothingWhenItSaysNone) {
  for (const char* text : {"", "{", "[]", "7", R"({"message": 7})",
                           R"({"message": {"message": []}})", R"({"error": "x"})", "\xff\xfe"}) {
    EXPECT_EQ(after(text), "") << text;
  }
  EXPECT_EQ(read_error_file(folder_.path() + "/none.json"), "");
  EXPECT_EQ(read_error_file(folder_.path()), "");
}

TEST_F(ErrorFile, IsNothingWhenItIsTooLongOrNoFile) {
  EXPECT_EQ(after(R"({"message": ")" + std::string(kErrorFileBytes, 'x') + R"("})"), "");
  EXPECT_EQ(after(std::string(200'000, '[')), "");
  const std::string pipe = folder_.path() + "/pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(read_error_file(pipe), "");
}

TEST_F(ErrorFile, ItsMessageStandsInTheVerdictInOneBoundedLine) {
  FailedWorker failed{3, 123, Exit{1, 0}, {}, "ValueError: line one\nline two"};
  EXPECT_EQ(make_failure_report(failed, "h").head,
            "rank 3 on h (pid 123) exited with code 1: ValueError: line one?line two");
  failed.message.assign(10'000, 'x');
  EXPECT_LE(make_failure_report(failed, "h").head.size(), 520U);
}

}  // namespace
}  // namespace c10dd::run
