"""The commands of the command line, a file each; `hpsearch.cli` reads their arguments."""
