# SPDX-License-Identifier: Apache-2.0
"""Stages: a program that computes sizes, as programs whose sizes are known at each start."""
