"""The prompt of the demo's model (SmolLM2-135M): a prefill of 256 tokens, by scheme of its weights.

Clock, floor and peers are those of `./dev bench decode`; arithmetic bounds a prefill.

    ./dev bench prefill
    ./dev bench prefill --scheme bf16 --scheme gguf
"""

import sys

from support import language

if __name__ == "__main__":
    sys.exit(language.main("prefill", __doc__))
