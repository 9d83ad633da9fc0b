"""Merge trees and sums over rows: the work of many parts, on threads or on a cluster."""
