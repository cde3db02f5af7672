# SPDX-License-Identifier: Apache-2.0
"""Rewriting: the pass base class and runner, pattern rules and their worklist driver."""
