"""Bulk transfers over TCP: frames with checked headers, paced as the scheduler plans."""
