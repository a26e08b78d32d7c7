"""Tiny models of many architectures, run by eager PyTorch and by graphex."""
