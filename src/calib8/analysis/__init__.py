"""Looking at models: evaluation, inspection, the rules of targets."""
