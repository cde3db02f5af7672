# SPDX-License-Identifier: Apache-2.0
"""Single kernels beside libraries, other compilers and the limits of the machine."""
