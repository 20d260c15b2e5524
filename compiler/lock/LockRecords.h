// Single records of a lock file and the facts that they stand for.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Lock.h"

#include <nlohmann/json.hpp>

#include <stdexcept>
#include <string>
#include <vector>

namespace opc::lock {

using Json = nlohmann::ordered_json;

/// What a record says that it must not; becomes OPC0120.
struct BadRecord : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A value of its AttrType: true, 3 (i64), "text", 1.5 (f64), or tagged {"f32": 1.5}.
Json attrRecord(const AttrValue &value);
AttrValue attrOf(const Json &record);

/// Records of a section, in the file's order.
std::vector<Json> recordsOf(const Lock &lock, LockSection section);
/// Adds what a record of a section says. Throws BadRecord and nlohmann's exceptions.
void addRecord(const Json &record, LockSection section, Lock *lock);
/// After the last record: what one section says of another's facts.
void joinSections(Lock *lock);

/// GraphFacts::pieces from the parts of a graph that was compiled for a mesh.
void namePieces(GraphFacts *facts);

/// What a variable begins with, its initializer or "values sha256:DIGEST", and back.
std::string initialText(const GraphTensor &variable);
void readInitial(const std::string &text, GraphTensor *variable);

/// "random_normal_conf {mean = 0.000000e+00 : f32, std = 2.000000e+00 : f32}" without the mean: a graph may write out
/// what is the default, and locks of earlier builds have what it wrote. A text of another form stays as it is.
std::string withoutDefaults(const std::string &initializer);

/// "f32[2,3]" and back.
std::string typeRecord(DataType dtype, const Shape &shape);
void readType(const std::string &text, DataType *dtype, Shape *shape);

} // namespace opc::lock
