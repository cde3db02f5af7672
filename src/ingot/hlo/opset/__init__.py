"""The op table's rows, one file per family; see `ingot.hlo.opdef` for what a row says."""
