"""One token of the demo's model (SmolLM2-135M): a decode step after a prompt, by scheme of its weights and batch.

Clock: the step that the user waits for; replay, beside it, is the compiled callable from entry to return. Floor: the
weights and the keys and values over the read bandwidth, or the operations over the peak. "gguf" is the file that the
model came from, its blocks as they are: llama.cpp and OpenVINO GenAI run the same file, where --peer-python has them.
KL: how far the quantised model's next-token distribution is from the fp32 model's. A compile takes a minute.

    ./dev bench decode
    ./dev bench decode --scheme bf16 --scheme gguf --batch 1 --batch 8
"""

import sys

from support import language

if __name__ == "__main__":
    sys.exit(language.main("decode", __doc__))
