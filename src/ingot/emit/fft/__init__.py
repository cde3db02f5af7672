# SPDX-License-Identifier: Apache-2.0
"""Arithmetic of Fourier transforms in registers (`butterflies`), which every target shares."""
