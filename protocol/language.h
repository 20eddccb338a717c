// SPDX-License-Identifier: Apache-2.0
// Gives one readable error if the compiler is set to a standard older than C++20. Include this file
// before any header that needs C++20.
#pragma once

#if __cplusplus < 202002L
#error "c10dd needs C++20 or newer: compile with -std=c++20, or in CMake link c10dd::client"
#include <nothing more is compiled>
#endif
