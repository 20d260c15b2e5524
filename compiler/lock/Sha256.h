// SHA-256 of some bytes: what stands in a lock for what is too long to be read.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace opc {

/// The digest as 64 hexadecimal digits. FIPS 180-4, section 6.2.
std::string sha256(std::string_view bytes);

} // namespace opc
