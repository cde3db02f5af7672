# SPDX-License-Identifier: Apache-2.0
"""Sorts and selections as LLVM functions, native functions of every size.

* Sorts by one key: `keyed_sort` is the driver; `keyed_row` has its variants and rows, `keyed_rows`
  and `keyed_vectors` make `records` of elements and back. `quicksort` sorts records: it divides a
  range (`partition`) until it is a block, which is sorted in registers (`blocks`).
* Sorts by any comparator: `merged_rows` is the driver, `merge_sort` sorts a row or a part.
* Selections: `topk` is the driver, `selection_vectors` its vector code.
"""
