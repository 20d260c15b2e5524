"""What everything of the style raises."""
# SPDX-License-Identifier: Apache-2.0


class MXNetError(RuntimeError):
    """A call or class that does not fit; errors of runs are opc.Error."""
