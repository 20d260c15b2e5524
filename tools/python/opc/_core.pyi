"""The compiler and executor; its functions are the package's own affair."""
# SPDX-License-Identifier: Apache-2.0
from typing import Any

version: str

def __getattr__(name: str) -> Any: ...
