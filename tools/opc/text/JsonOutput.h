// JSON documents of the command line: ordered keys, two blanks of indent, one trailing newline.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/Attr.h"
#include "opc/Shape.h"

#include <nlohmann/json.hpp>

#include <string>

namespace opc::cli {

using Json = nlohmann::ordered_json;

/// The document as text. Bytes that are no UTF-8 are replaced.
std::string jsonText(const Json &document);
/// The same on one line, for streams of documents.
std::string jsonLine(const Json &document);
Json shapeJson(const Shape &shape);
/// {"type": "kAtBool", "value": false}; values that are not finite are strings.
Json attrJson(const AttrValue &value);
/// A number, or "nan", "inf", "-inf", which JSON has no numbers for.
Json realJson(double value);
/// "f32", or null when the dtype is not known.
Json dtypeJson(DataType type);

} // namespace opc::cli
