"""Int8 models of Tengine as programs of the profile ``tengine``: an instruction or a few per operator."""
