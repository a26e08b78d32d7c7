"""OpenVINO GenAI, which reads GGUF files itself: mean seconds of a token after the first, or of the first, a play."""

from common import serve, tokens_of

TOKENS = 9


def open_engine(task):
    import openvino as ov
    import openvino_genai as genai

    if task["batch"] > 1:
        raise NotImplementedError("this bench asks OpenVINO for one sequence only")
    pipeline = genai.LLMPipeline(task["model"], "CPU", INFERENCE_NUM_THREADS=task["threads"])
    ids = ov.Tensor([tokens_of(task)])
    options = genai.GenerationConfig(max_new_tokens=1 if task["phase"] == "prefill" else TOKENS, ignore_eos=True)

    def play():
        metrics = pipeline.generate(ids, options).perf_metrics
        return (metrics.get_ttft() if task["phase"] == "prefill" else metrics.get_tpot()).mean / 1e3

    return genai.__version__, play


if __name__ == "__main__":
    serve(open_engine)
