// Values of attributes that differ, and what is said of the difference.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/Attr.h"

#include <string>

namespace opc {

/// Whether both are of one type and value: a NaN is one, and 0 is not -0.0, whose quotients differ. Long values that a
/// lock has as digests are equal where these are.
bool sameAttribute(const AttrValue &a, const AttrValue &b);

/// An attribute's value as text; a digest, or bytes that nothing interprets, as they are or by their own digest.
std::string attributeText(const AttrValue &value);

/// "was -> is". Of long texts what stands around the place where they begin to differ.
std::string changeText(const std::string &was, const std::string &is);

/// At most 60 characters.
std::string shortened(const std::string &text);

} // namespace opc
