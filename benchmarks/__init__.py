"""Ratios against peers and limits, each measured within one run."""
