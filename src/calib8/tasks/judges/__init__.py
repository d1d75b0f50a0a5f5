"""Judges of tasks, a file each: detections, masks, embeddings, text, keypoints, classes, decisions, signals."""
