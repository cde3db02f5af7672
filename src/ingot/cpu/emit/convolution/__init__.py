# SPDX-License-Identifier: Apache-2.0
"""The drivers of convolutions, native functions of every size.

`calls` says how they are called. There is one for direct convolutions (`direct`), Winograd's
(`winograd`) and gradients of filters (`filter_gradient`). Rows that a unit copies are
`copied_rows`. The numbers come from `kernel.convolution`.
"""
