// Opening the data sets of a run.
// SPDX-License-Identifier: Apache-2.0
#include "DataSets.h"

#include "NamedValues.h"
#include "TensorFormat.h"
#include "TextParts.h"

#include <algorithm>

namespace opc::cli {

namespace {

Result<MappedTensor> openDataSet(const DataSet &d, const PortInfo &port, bool cast) {
  const DataType wanted = port.desc.data_type();
  // Before it is read: a member of an archive that does not fit may be larger than the machine.
  const auto check = [&](const user_op::TensorDesc &found) -> Status {
    OPC_RETURN_IF_ERROR(BatchLoader::checkType(user_op::TensorDesc(found.shape(), wanted), port));
    if (found.data_type() != wanted && !cast)
      return Status(StatusCode::kUsage, "OPC0703",
                    "the data set " + d.file + " is " + dataTypeName(found.data_type()) + ", input '" + d.input +
                        "' is " + dataTypeName(wanted))
          .withHelp("let opc convert it: --cast");
    if (found.data_type() != wanted)
      return checkReadLimit(static_cast<uint64_t>(found.shape().elem_cnt()) *
                                (GetSizeOfDataType(found.data_type()) + GetSizeOfDataType(wanted)),
                            d.file + ", to be converted");
    return Status::ok();
  };
  Result<MappedTensor> data = MappedTensor::open(d.file, wanted, check);
  if (!data) return Status(data.status()).withContext("reading the data set of input " + d.input);
  if (data->desc().data_type() == wanted) return data;
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
    OPC_ASSIGN_OR_RETURN(MappedTensor data, openDataSet(d, port, cast));
    sources.push_back({d.input, std::move(data)});
  }
  return sources;
}

} // namespace opc::cli
