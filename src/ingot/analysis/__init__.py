# SPDX-License-Identifier: Apache-2.0
"""Facts about modules that several layers need; computed on demand, invalidated by edits."""
