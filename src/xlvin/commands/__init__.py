"""The commands of the `xlvin` command line, one module each."""
