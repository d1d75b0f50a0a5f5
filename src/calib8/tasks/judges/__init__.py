"""Judges of tasks, a file each: boxes, masks, embeddings, text, keypoints, classes, decisions, signals."""
