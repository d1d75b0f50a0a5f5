"""Instructions of a program as steps of a plan: one function per instruction."""
