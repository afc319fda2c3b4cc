"""What has no meaning of its own: checks, files, row blocks, threads, cache. Not public; it may change at any time."""
