# SPDX-License-Identifier: Apache-2.0
"""Programs on several devices: from one program over global shapes to the program of each device.

Code that the user divides by hand (`shard_map`, `pmap`) stays as it is. Ops on other divided values
are computed on the parts if they allow that, and on gathered values if not. Other packages call
`partition`, which asks `partitioner` where there are several devices. It runs:

* rewrites of the whole program, so that more ops allow it: `annotations` removes reshards that only
  Shardy wanted, `updates` splits updates of boxes, `uneven` pads what devices do not divide;
* `walk`, op by op: by its `factors` and `division`, or as `halos`, `indexed` and `folds` say;
  `control` divides the state of loops;
* `values` and `reshard`, which give each op its operands as it needs them: by one of the
  `exchanges`, by a `movement` of slices (`runs` says where they come from), or gathered.

Shardings are read by `sharding`; `partitioner` settles those that a program leaves open. Ops that
the host partitions itself are `custom_partitioners`, which ask the functions of `own_partitions`.
"""
