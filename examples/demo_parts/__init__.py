# SPDX-License-Identifier: Apache-2.0
"""The parts of `demo.py`: programs and their facts in worker processes, tables in the main one."""
