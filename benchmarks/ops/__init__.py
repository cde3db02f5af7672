# SPDX-License-Identifier: Apache-2.0
"""The ops and small programs that `make bench` and `make bench-ops` measure."""
