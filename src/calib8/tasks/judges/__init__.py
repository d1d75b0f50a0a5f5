"""Judges of tasks: detections, masks, embeddings, lines of text, keypoints, classes; one file each."""
