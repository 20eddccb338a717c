// SPDX-License-Identifier: Apache-2.0
// A module with the entry points of several kinds of modules: one that fits its loader in the test,
// and some from other builds.
#include "client/internal/module_loader.h"

using c10dd::client::ModuleHead;

extern "C" {

const ModuleHead* c10dd_fake_module() {
  static const ModuleHead head{.abi = 7, .setup_bytes = 24};
  return &head;
}
const ModuleHead* c10dd_fake_module_of_other_abi() {
  static const ModuleHead head{.abi = 6, .setup_bytes = 24};
  return &head;
}
const ModuleHead* c10dd_fake_module_of_other_setup() {
  static const ModuleHead head{.abi = 7, .setup_bytes = 32};
  return &head;
}
const ModuleHead* c10dd_fake_module_of_other_compiler() {
  static const ModuleHead head{.abi = 7, .setup_bytes = 24, .compiler = "other"};
  return &head;
}
}
