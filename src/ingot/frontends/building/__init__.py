# SPDX-License-Identifier: Apache-2.0
"""What the front ends share when they write HLO: idioms of arrays, and special functions."""
