# SPDX-License-Identifier: Apache-2.0
"""HLO: the one IR. Shapes, instructions, computations, modules, the op table, the verifier.

The layer above, `semantics`, defines what custom calls and attributes mean to later stages.
"""
