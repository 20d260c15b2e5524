// SHA-256 of some bytes: what stands in a lock for what is too long to be read.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace opc {

/// The digest as 64 hexadecimal digits. FIPS 180-4, section 6.2.
std::string sha256(std::string_view bytes);
/// The same, and a zero behind them, without memory of its own: for handlers of signals.
void sha256Digits(std::string_view bytes, char (&digits)[65]) noexcept;

} // namespace opc
