"""What the benches and the demo share: the model, the engines, the clocks and the machine's own limits."""
