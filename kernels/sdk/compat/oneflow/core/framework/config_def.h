// Settings that OneFlow's jobs have. opc's have none: each keeps the default that it is registered with, and there is
// nothing to read one by.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "oneflow/core/framework/framework.h"

namespace oneflow {

class ConfigDefBuidler final {
public:
  const ConfigDefBuidler &Bool(const std::string &, bool, const std::string &) const { return *this; }
  const ConfigDefBuidler &Int64(const std::string &, int64_t, const std::string &) const { return *this; }
  const ConfigDefBuidler &Double(const std::string &, double, const std::string &) const { return *this; }
  const ConfigDefBuidler &String(const std::string &, const std::string &, const std::string &) const { return *this; }
};

} // namespace oneflow

#define REGISTER_CONFIG_DEF(kind)                                                                                      \
  [[maybe_unused]] static const ::oneflow::ConfigDefBuidler OPC_CONCAT(opcConfigDef, __COUNTER__) =                    \
      ::oneflow::ConfigDefBuidler()
#define REGISTER_ENV_CONFIG_DEF() REGISTER_CONFIG_DEF(kEnvConfigDefType)
#define REGISTER_SESSION_CONFIG_DEF() REGISTER_CONFIG_DEF(kSessionConfigDefType)
#define REGISTER_FUNCTION_CONFIG_DEF() REGISTER_CONFIG_DEF(kFunctionConfigDefType)
#define REGISTER_SCOPE_CONFIG_DEF() REGISTER_CONFIG_DEF(kScopeConfigDefType)
