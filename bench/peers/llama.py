"""llama.cpp by the package llama-cpp-python: one decode step of every sequence, or a whole prefill, a play."""

import time

from common import serve, tokens_of

STEPS = 8


class Engine:
    def __init__(self, api, task):
        self.api = api
        self.batch, self.prefill = task["batch"], task["phase"] == "prefill"
        self.tokens = tokens_of(task)
        api.llama_backend_init()
        self.model = api.llama_model_load_from_file(task["model"].encode(), api.llama_model_default_params())
        if not self.model:
            raise ValueError(f"llama.cpp can't load {task['model']}")
        options = api.llama_context_default_params()
        options.n_ctx = self.batch * (task["context"] + 64)
        options.n_batch = options.n_ubatch = max(512, task["context"])
        options.n_seq_max = self.batch
        options.n_threads = options.n_threads_batch = task["threads"]
        self.context = api.llama_init_from_model(self.model, options)
        if not self.context:
            raise MemoryError("llama.cpp can't make a context")
        self.memory = api.llama_get_memory(self.context)
        self.room = api.llama_batch_init(max(len(self.tokens), self.batch), 0, 1)
        self.steps = 0
        if not self.prefill:
            for sequence in range(self.batch):
                self.decode([(t, i, sequence) for i, t in enumerate(self.tokens)])

    def decode(self, entries):
        """Seconds of llama_decode over (token, position, sequence), logits of each sequence's last."""
        last = {sequence: i for i, (_, _, sequence) in enumerate(entries)}
        self.room.n_tokens = len(entries)
        for i, (token, position, sequence) in enumerate(entries):
            self.room.token[i], self.room.pos[i] = token, position
            self.room.n_seq_id[i], self.room.seq_id[i][0] = 1, sequence
            self.room.logits[i] = last[sequence] == i
        start = time.perf_counter()
        code = self.api.llama_decode(self.context, self.room)
        self.api.llama_get_logits_ith(self.context, len(entries) - 1)  # waits
        seconds = time.perf_counter() - start
        if code:
            raise RuntimeError(f"llama_decode returned {code}")
        return seconds

    def play(self):
        if self.prefill:
            for sequence in range(self.batch):
                self.api.llama_memory_seq_rm(self.memory, sequence, 0, -1)
            return sum(
                self.decode([(t, i, sequence) for i, t in enumerate(self.tokens)]) for sequence in range(self.batch)
            )
        if self.steps == STEPS:
            self.steps = 0
            for sequence in range(self.batch):
                self.api.llama_memory_seq_rm(self.memory, sequence, len(self.tokens), -1)
        position = len(self.tokens) + self.steps
        self.steps += 1
        return self.decode([(self.tokens[0], position, sequence) for sequence in range(self.batch)])


def open_engine(task):
    import llama_cpp as api

    return api.__version__, Engine(api, task).play


if __name__ == "__main__":
    serve(open_engine)
