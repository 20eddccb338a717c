// SPDX-License-Identifier: Apache-2.0
// What /readyz says of TLS connections to other daemons that have failed.
#include "daemon/net/link_failures.h"

#include <gtest/gtest.h>

namespace c10dd::daemon {
namespace {

using namespace std::chrono_literals;

TEST(LinkFailures, TellsTheNewestUntilItSucceedsOrIsOld) {
  LinkFailures links;
  const LinkFailures::Time now{1h};
  EXPECT_EQ(links.text(now), "");
  links.failed("10.0.0.2:29500", "no", now);
  links.failed("10.0.0.1:29500", "expired", now + 1s);
  EXPECT_EQ(links.text(now + 1s),
            "no TLS connection to the daemon at 10.0.0.1:29500 (and to 1 more): expired");
  links.succeeded("10.0.0.1:29500");
  EXPECT_EQ(links.text(now + 1s), "no TLS connection to the daemon at 10.0.0.2:29500: no");
  links.failed("10.0.0.2:29500", "still no", now + 50s);
  EXPECT_EQ(links.text(now + 110s), "no TLS connection to the daemon at 10.0.0.2:29500: still no");
  EXPECT_EQ(links.text(now + 111s), "");
}

TEST(LinkFailures, KeepsAFewAddresses) {
  LinkFailures links;
  const LinkFailures::Time now{1h};
  for (int i = 0; i < 1000; ++i) links.failed(std::to_string(i), "no", now + i * 1ms);
  EXPECT_EQ(links.text(now + 2s), "no TLS connection to the daemon at 999 (and to 63 more): no");
}

}  // namespace
}  // namespace c10dd::daemon
