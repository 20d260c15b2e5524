"""Activations."""
# SPDX-License-Identifier: Apache-2.0
from ..functions import relu, sigmoid, tanh

__all__ = ["relu", "sigmoid", "tanh"]
