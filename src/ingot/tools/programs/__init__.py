# SPDX-License-Identifier: Apache-2.0
"""Programs as commands get them: modules in files, their inputs, and the platforms that run them.

* `options`: the options of commands that run a module: format, platform, inputs, error bounds;
* `isolated`: programs of one instruction each, for `ingot run --isolate-instructions`;
* `cases`: HLO text whose first comments are its inputs;
* `platforms`: what a module can run on, each as a function from a module to a program;
* `comparing`: compares the results of two platforms as XLA's run_hlo_module does;
* `inputs`: random inputs for a module that are meaningful for their uses;
* `literals`: literals in files, for inputs and outputs;
* `loading`: modules from files: the format is an option, or is found from the data.
"""
