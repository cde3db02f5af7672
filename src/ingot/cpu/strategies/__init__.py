# SPDX-License-Identifier: Apache-2.0
"""Strategies of the CPU: how a kernel runs, decided once for each.

`table` is the list in priority order; `request` is what a strategy is asked about. A strategy gives
a kernel of the library (`cpu.library.parts.LibraryKernel`), where nothing is to be compiled, or one
of the `plans`; `text` prints both. The strategies, by what they run:

* `products` and `convolutions`: drivers of the library, or loops of their own (`contraction`);
* `attention`;
* loop kernels: `generic_kernels` of the library, or loops of their own, which `table` plans;
* sorts of few elements (`sorting_network`), other `sorts`, `selections`, Fourier `transforms`.

`common` is the table of what `load_library` loads ahead, `samples` has loop kernels for it.
"""
