"""Imperative capture: recording what eager code asks of the dispatcher, as a graph of ATen calls."""
