// The data sets of a run.
// SPDX-License-Identifier: Apache-2.0
#include "DataSets.h"

#include "NamedValues.h"
#include "PlanFile.h"
#include "TextParts.h"

#include <algorithm>
#include <cstdio>

namespace opc::cli {

namespace {

const std::string kContent = "content of ";

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

std::string contentKey(const std::string &input) { return kContent + input; }
bool isContentKey(const std::string &key) { return key.compare(0, kContent.size(), kContent) == 0; }

std::string contentOf(const user_op::TensorDesc &desc, const void *data) {
  constexpr size_t kWhole = size_t{1} << 30, kBlock = size_t{1} << 16, kBlocks = size_t{1} << 14;
  const std::string_view bytes(static_cast<const char *>(data),
                               static_cast<size_t>(desc.shape().elem_cnt()) * GetSizeOfDataType(desc.data_type()));
  uint64_t sum = 0;
  if (bytes.size() <= kWhole)
    sum = planChecksum(bytes);
  else
    for (size_t i = 0; i < kBlocks; ++i) {
      const size_t last = bytes.size() - kBlock; // where the last block begins
      const size_t begin = last / (kBlocks - 1) * i + last % (kBlocks - 1) * i / (kBlocks - 1);
      const uint64_t both[] = {sum, planChecksum(bytes.substr(begin, kBlock))};
      sum = planChecksum({reinterpret_cast<const char *>(both), sizeof both});
    }
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(sum));
  return desc.toString() + " " + digits;
}

Status checkSameRun(const std::string &path, const std::map<std::string, std::string> &notes,
                    const std::map<std::string, std::string> &mine) {
  for (const bool contents : {false, true}) // what the data is said to be comes before what is in it
    for (const auto &[key, value] : mine) {
      const auto it = notes.find(key);
      if (isContentKey(key) != contents || it == notes.end() || it->second == value) continue;
      const std::string what =
          contents ? " is of a run with other values for input '" + key.substr(kContent.size()) + "': " + it->second +
                         ", here " + value
                   : " is of a run with " + key + " " + it->second + ", this one has " + key + " " + value;
      return Status(StatusCode::kUsage, "OPC0712", path + what)
          .withHelp("use the same data and flags, or start a new run from its values with --weights " + path);
    }
  return Status::ok();
}

} // namespace opc::cli
