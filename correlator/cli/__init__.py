"""The command line: a module for each command, which declares arguments, calls the library and prints."""
