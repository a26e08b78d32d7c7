"""Streams and events: replays that run beside the calling thread, and what orders them."""
