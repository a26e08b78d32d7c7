"""The lowering of AOT's FX graphs to the IR's text; lowering.py is its map."""
