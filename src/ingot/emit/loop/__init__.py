# SPDX-License-Identifier: Apache-2.0
"""Loop kernels at any lane count: `units` of work, the passes in them (`body`), folds and scans."""
