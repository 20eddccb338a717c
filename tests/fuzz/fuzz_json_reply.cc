// SPDX-License-Identifier: Apache-2.0
// Any answer that a daemon may give must become text that is JSON.
#include <boost/json/parse.hpp>

#include "protocol/json_wire.h"
#include "protocol/native_wire.h"
#include "tests/fuzz/draw.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  c10dd::fuzz::Input in(data, size);
  c10dd::fuzz::Draw draw(in);
  std::size_t choice = in.below(std::variant_size_v<c10dd::Request>);
  c10dd::for_each_op([&]<class Op>(std::type_identity<Op>) {
    if (choice-- != 0) return;
    const std::string text = c10dd::json::encode_reply_body(draw.reply(Op::op.code));
    boost::json::error_code failed;
    boost::json::parse(text, failed);
    C10DD_ASSERT(!failed);
  });
  return 0;
}
