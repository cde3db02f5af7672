# SPDX-License-Identifier: Apache-2.0
"""Layouts: made explicit where they are visible, at custom calls (`custom_call_layouts`)."""
