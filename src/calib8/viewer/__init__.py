"""Reports of a folder in a browser, side by side: a server of this machine alone, which only reads."""
