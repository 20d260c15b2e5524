"""Whether ops compute at once, or are put into a program."""
# SPDX-License-Identifier: Apache-2.0
_static = False


def enable_static() -> None:
    """From now on `paddle.static` builds programs."""
    global _static
    _static = True


def disable_static(place: object = None) -> None:
    """Ops compute at once, as at the start."""
    global _static
    _static = False


def in_dynamic_mode() -> bool:
    return not _static
