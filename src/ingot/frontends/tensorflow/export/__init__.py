# SPDX-License-Identifier: Apache-2.0
"""Compiled programs for people and for files: compiler IR, frozen functions, saved models.

The files, importers first:

* `saved_models`: HLO modules of a SavedModel's signature or a `.keras` file;
* `frozen_graphs`: the HLO module of a frozen GraphDef with tfcompile's config;
* `freezing`: the HLO module of a function, with its variables as constants;
* `compiler_ir`: experimental_get_compiler_ir, and all executables by name;
* `ir_forms`: the stages of experimental_get_compiler_ir that `Executable.as_text` does not have.
"""
