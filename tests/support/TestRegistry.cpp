// The operators that tests run.
// SPDX-License-Identifier: Apache-2.0
#include "TestRegistry.h"

#include <stdexcept>

namespace opc::test {

const Registry &registry() {
  static const Registry linked = [] {
    Registry r;
    if (Status s = r.addLinked(); !s) throw std::runtime_error(s.toString());
    r.freeze();
    return r;
  }();
  return linked;
}

} // namespace opc::test
