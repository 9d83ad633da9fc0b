"""What the papers report, measured again with squeak: ``make reproduce``."""
