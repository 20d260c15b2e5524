// Machine code for regions: whether there is any, and where it is kept.
// SPDX-License-Identifier: Apache-2.0
#include "CodeSettings.h"

#include "Codegen.h"
#include "NumberText.h"

#include <algorithm>

namespace opc::cli {

namespace {

const ConfigValue &valueOf(const Config &config, const std::string &name) {
  const auto &values = config.values();
  return *std::find_if(values.begin(), values.end(), [&](const ConfigValue &v) { return name == v.key->name; });
}

} // namespace

Result<std::unique_ptr<codegen::CodeCache>> codeCache(const Config &config) {
  const ConfigValue &folder = valueOf(config, "cache.dir"), &size = valueOf(config, "cache.size");
  const uint64_t bytes = parseBytes(size.values[0]).value_or(0); // as the settings have been checked
  if (bytes == 0) return std::unique_ptr<codegen::CodeCache>();
  return codegen::CodeCache::open(folder.isDefault() ? "" : folder.values[0], bytes);
}

Status setUpCode(Invocation &invocation) {
  OPC_RETURN_IF_ERROR(checkCodeLevel());
  const Config &config = invocation.config();
  if (invocation.flags().noCodegen || valueOf(config, "target.codegen").values[0] == "false") return Status::ok();
  const std::shared_ptr<RegionCodegen> compiler = RegionCodegen::forThisMachine();
  setRegionCompiler(compiler);
  if (!compiler || invocation.flags().noCache) return Status::ok();
  Result<std::unique_ptr<codegen::CodeCache>> cache = codeCache(config);
  if (cache && *cache)
    compiler->setCache(std::move(*cache));
  else if (!cache)
    invocation.note("note: " + cache.status().message());
  return Status::ok();
}

} // namespace opc::cli
