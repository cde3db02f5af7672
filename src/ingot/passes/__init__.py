# SPDX-License-Identifier: Apache-2.0
"""Passes: what changes a module on its way from HLO to kernels, one package for each purpose."""
