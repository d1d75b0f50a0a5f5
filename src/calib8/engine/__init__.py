"""The native engine: programs as plans, plans as files, plans run."""
