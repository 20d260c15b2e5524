// Operations and bytes, which are sums of doubles: they may be larger than any integer type.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "JsonOutput.h"

#include <string>

namespace opc::cli {

/// A number of 0 or more, rounded to a whole one. From 2^64 on it is a number with an exponent, which readers of JSON
/// take for whole, too.
Json wholeJson(double value);
/// "1,234,567"; from 1e18 on "1.234e20".
std::string wholeText(double value);
/// "1.5 KiB"; from 1e18 on in EiB, "1.234e6 EiB".
std::string largeBytesText(double bytes);

} // namespace opc::cli
