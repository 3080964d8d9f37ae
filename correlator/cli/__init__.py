"""The command line: one module a command; each declares its arguments, calls the library and prints, and decides nothing."""
