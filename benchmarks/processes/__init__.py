# SPDX-License-Identifier: Apache-2.0
"""Times of whole processes and of compilation: cold starts, ahead of time, by program size."""
