// Conflicting accesses without an order between them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Access.h"

namespace opc::gpusim {

/// Remembers the access of a lane in the cells of [offset, offset + want.size), and reports what it conflicts with.
/// `same`: the bytes hold what is written already.
void noteAccess(Lanes &x, int lane, Cell *cells, uint64_t offset, const Want &want, uint32_t generation,
                const std::byte *old);

} // namespace opc::gpusim
