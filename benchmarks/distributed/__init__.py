# SPDX-License-Identifier: Apache-2.0
"""Collectives, and programs divided over devices, processes and machines."""
