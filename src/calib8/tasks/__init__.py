"""What the outputs of a network mean: branches, what each is, and how much of it an int8 model keeps."""
