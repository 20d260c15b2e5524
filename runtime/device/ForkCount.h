// Which generation of fork() this process is: threads that were made before it are gone.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace opc::runtime {

/// How many of this process's forebears have called fork() since opc was loaded: 0 in the first one. What was made in
/// another generation has lost its threads.
int forkCount();

} // namespace opc::runtime
