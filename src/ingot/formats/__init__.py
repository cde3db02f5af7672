# SPDX-License-Identifier: Apache-2.0
"""Formats: texts and bytes of other tools, read into modules and written from them."""
