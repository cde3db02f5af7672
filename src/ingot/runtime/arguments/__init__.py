# SPDX-License-Identifier: Apache-2.0
"""Arguments and results as arrays of C: other libraries' tensors without a copy, conversions.

* `convert`: arguments that do not have the form of the fast path: converted, without a copy where
  possible;
* `dlpack`: another library's tensor without a copy, and our memory for another library;
* `c_arrays`: arrays of C in memory that Python owns.
"""
