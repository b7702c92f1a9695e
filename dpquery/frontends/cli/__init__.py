"""The command line: one module for each group of commands, the demo and the catalog's skeleton."""
