"""Random PyTorch functions, compiled by the graphex backend and compared with eager PyTorch: ./dev fuzz graphs."""
