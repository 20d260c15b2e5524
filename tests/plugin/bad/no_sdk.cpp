// A shared library that has nothing to do with opc.
// SPDX-License-Identifier: Apache-2.0
extern "C" int unrelated() { return 42; }
