# SPDX-License-Identifier: Apache-2.0
"""The op table's rows, one file per family; see `ingot.hlo.opdef` for what a row says."""
