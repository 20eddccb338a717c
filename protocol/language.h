// SPDX-License-Identifier: Apache-2.0
// Included before anything that older languages do not know: a compiler that is set to one says so
// in one sentence and stops.
#pragma once

#if __cplusplus < 202002L
#error "c10dd needs C++20 or newer: compile with -std=c++20, or in CMake link c10dd::client"
#include <nothing more is compiled>
#endif
