"""Images and arrays: preprocessing, sources, batches decoded ahead in threads."""
