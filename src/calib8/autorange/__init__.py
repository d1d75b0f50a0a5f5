"""The range of each activation by what its error does behind the layers that read it, checked as a whole."""
