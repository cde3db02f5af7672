# SPDX-License-Identifier: Apache-2.0
"""Drivers of convolutions: direct, Winograd's, and gradients of filters."""
