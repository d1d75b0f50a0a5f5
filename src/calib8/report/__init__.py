"""Pages that show what was found: pictures of calibration as one HTML file."""
