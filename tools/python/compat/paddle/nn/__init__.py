"""paddle.nn: its functional part."""
# SPDX-License-Identifier: Apache-2.0
from . import functional

__all__ = ["functional"]
