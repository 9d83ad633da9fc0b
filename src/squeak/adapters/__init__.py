"""Bridges to other libraries; each needs its extra, and is imported when it is called for."""
