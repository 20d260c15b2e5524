"""What the front ends in other systems' styles have in common: operators of classes, and a tape of sessions (docs/python-styles.md)."""
# SPDX-License-Identifier: Apache-2.0
import os

from opc import _places

_places.skip_folder(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
