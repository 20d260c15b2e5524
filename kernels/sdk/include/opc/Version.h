// Versions of the operator SDK.
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Raised whenever a plugin compiled against older headers can no longer be loaded.
#define OPC_SDK_API_VERSION 3
#define OPC_VERSION_STRING "0.2.0" // the one place: CMakeLists.txt reads it here (docs/release.md)
