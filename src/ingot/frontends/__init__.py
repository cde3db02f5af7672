# SPDX-License-Identifier: Apache-2.0
"""Front ends: each turns one framework's programs into modules and runs what comes back."""
