# SPDX-License-Identifier: Apache-2.0
"""The op table's rows, one file per family; `ingot.hlo.opdef` defines the fields of a row."""
