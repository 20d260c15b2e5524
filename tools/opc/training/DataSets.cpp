// Opening the data sets of a run.
// SPDX-License-Identifier: Apache-2.0
#include "DataSets.h"

#include "NamedValues.h"
#include "TextParts.h"

#include <algorithm>

namespace opc::cli {

namespace {

Result<MappedTensor> openDataSet(const DataSet &d, DataType wanted, bool cast) {
  Result<MappedTensor> data = MappedTensor::open(d.file, wanted);
  if (!data) return Status(data.status()).withContext("reading the data set of input " + d.input);
  if (data->desc().data_type() == wanted) return data;
  if (!cast)
    return Status(StatusCode::kUsage, "OPC0703",
                  "the data set " + d.file + " is " + dataTypeName(data->desc().data_type()) + ", input '" + d.input +
                      "' is " + dataTypeName(wanted))
        .withHelp("let opc convert it: --cast");
  OPC_ASSIGN_OR_RETURN(const HostTensor host, data->toHost());
  Result<HostTensor> converted = castTensor(host, wanted);
  if (!converted) return Status(converted.status()).withContext("converting the data set of input " + d.input);
  return MappedTensor(std::move(*converted));
}

} // namespace

Result<std::vector<BatchLoader::Source>> openDataSets(const std::vector<DataSet> &dataSets, const Session &session,
                                                      const std::string &flag, bool cast) {
  std::vector<BatchLoader::Source> sources;
  const std::vector<std::string> names = namesOf(session.interface().inputs);
  for (const DataSet &d : dataSets) {
    const auto it = std::find(names.begin(), names.end(), d.input);
    if (it == names.end()) return noSuchName("input", d.input, names, flag + " " + d.input + "=@" + d.file);
    const PortInfo &port = session.interface().inputs[static_cast<size_t>(it - names.begin())];
    OPC_ASSIGN_OR_RETURN(MappedTensor data, openDataSet(d, port.desc.data_type(), cast));
    sources.push_back({d.input, std::move(data)});
  }
  return sources;
}

} // namespace opc::cli
