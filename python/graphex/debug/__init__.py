"""For finding out what a graph does and why: traces, dumps, recordings that a bug report can carry."""
