# SPDX-License-Identifier: Apache-2.0
"""Scheduling: in which order the host program runs the instructions."""
