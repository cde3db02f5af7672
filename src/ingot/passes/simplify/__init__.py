# SPDX-License-Identifier: Apache-2.0
"""Simplification: the same program with less in it. `pipeline.py` says in which order."""
