# SPDX-License-Identifier: Apache-2.0
"""Expansion: ops that no emitter knows, written as ops that they do know."""
