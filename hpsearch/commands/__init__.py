"""The commands of the command line, related ones in a file; `hpsearch.cli` reads arguments."""
