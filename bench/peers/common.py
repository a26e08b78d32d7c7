"""What the peers' processes share: the conversation with the bench. Standard library only; it may run in any Python."""

import json
import os
import random
import sys


def tokens_of(task, low=1000, high=40_000):
    """The same kind of text that the bench gives to the others: seeded tokens from the middle of the vocabulary."""
    chooser = random.Random(0)
    return [chooser.randrange(low, high) for _ in range(task["context"])]


def serve(open_engine):
    """`open_engine(task)` returns a version and a function that plays once; an exception is why the peer is missing."""
    channel = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print must not reach the channel
    task = json.loads(sys.stdin.readline())
    try:
        version, play = open_engine(task)
    except Exception as why:
        say(channel, missing=f"{type(why).__name__}: {' '.join(str(why).split())[:200]}")
        return
    say(channel, ready=version)
    for _ in sys.stdin:
        say(channel, seconds=play())


def say(channel, **answer):
    channel.write(json.dumps(answer) + "\n")
    channel.flush()
