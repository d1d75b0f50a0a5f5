"""``python -m calib8``: the same as the command ``calib8``."""

from calib8.cli import main

if __name__ == "__main__":
    main()
