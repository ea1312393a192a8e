# A script as you may have one: fits a line, step by step. corral run examples/train.py --steps 5
"""Fits y = 3x + 1 by gradient descent with nothing but Python, and writes what it learned beside itself."""

import argparse
import json
import os
from pathlib import Path

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=0.05)
parser.add_argument("--steps", type=int, default=20)
options = parser.parse_args()

slope, offset = 0.0, 0.0
points = [(x / 10, 3 * x / 10 + 1) for x in range(-20, 21)]
print(f"training on {os.environ.get('HOSTNAME', 'this machine')}, lr {options.lr}", flush=True)
for step in range(1, options.steps + 1):
    errors = [(slope * x + offset - y, x) for x, y in points]
    slope -= options.lr * 2 * sum(error * x for error, x in errors) / len(points)
    offset -= options.lr * 2 * sum(error for error, _ in errors) / len(points)
    print(f"step {step:3d}  loss {sum(error**2 for error, _ in errors) / len(points):.4f}", flush=True)
Path("model.json").write_text(json.dumps({"slope": slope, "offset": offset}))
print(f"learned y = {slope:.2f}x + {offset:.2f}", flush=True)
