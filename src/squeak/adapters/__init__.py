"""Bridges to other libraries; each is imported when an object of that library comes in."""
