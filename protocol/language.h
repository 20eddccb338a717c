// SPDX-License-Identifier: Apache-2.0
// Stops a compiler that is set to a standard older than C++20, with one readable error. To be
// included before any header that older standards cannot compile.
#pragma once

#if __cplusplus < 202002L
#error "c10dd needs C++20 or newer: compile with -std=c++20, or in CMake link c10dd::client"
#include <nothing more is compiled>
#endif
