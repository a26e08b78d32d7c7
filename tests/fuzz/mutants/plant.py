"""Writes copies of sources with mutants planted: each breaks one rule while its name is the one that runs.

The list is the proof that random graphs see such faults: gx_mutants runs a mutant over the seeds of CI and says which
seed found it. A mutant whose text is no longer in its source stops the build, so that none is lost unnoticed.

python plant.py SOURCE_ROOT OUTPUT_FOLDER    writes mutated_<n>.cc for each file, and names.h with the list
"""

import re
import sys
from dataclasses import dataclass
from pathlib import Path


@dataclass
class Mutant:
    """Expressions of a source file, and what stands for each while the mutant is on."""

    name: str
    file: str
    edits: dict[str, str]


STORAGE = "graphex/compile/storage.cc"
EFFECTS = "graphex/compile/isolate_effects.cc"
LOWERING = "graphex/compile/lowering.cc"
KERNELS = "graphex/compile/kernel_table.cc"
PLAN = "graphex/runtime/plan.cc"
PROGRAM = "graphex/runtime/program.cc"

MUTANTS = [
    Mutant("view_offset_forgotten", LOWERING, {'value->node && value->node->op == "view"': "false"}),
    Mutant("view_offset_of_its_operand", LOWERING, {"place.offset + offset": "place.offset + offset + offset"}),
    Mutant(
        "storage_late_readers_overlooked",
        STORAGE,
        {"reader < order || (except && reader == except->order)": "true"},
    ),
    Mutant("storage_layout_not_compared", STORAGE, {"operand.type.strides == node.out()->type.strides": "true"}),
    Mutant(
        "storage_loads_at_other_points",
        STORAGE,
        {
            "operand != input || operand->type.shape != value->type.shape || "
            "operand->type.strides != value->type.strides": "false",
            "map_of_operand(*operand, unit.maps.at(node->out())) != result_map": "false",
        },
    ),
    Mutant("storage_taken_from_a_write", STORAGE, {"outputs_.count(base) || written_.count(base)": "false"}),
    Mutant("storage_dies_too_early", LOWERING, {"std::max(buffer.last, step)": "std::max(buffer.first, 0)"}),
    Mutant("write_after_view_was_returned", EFFECTS, {"may_lie_in(output, written)": "false"}),
    Mutant("write_of_one_value_to_two", EFFECTS, {"taken.insert(base).second": "(taken.insert(base), true)"}),
    Mutant("write_of_a_part", EFFECTS, {"is_whole(write.value, base, write.input->type)": "true"}),
    Mutant("cat_position", KERNELS, {"offset * type.strides[dim]": "offset"}),
    Mutant("cat_length", KERNELS, {"offset + operand->type.shape[dim]": "operand->type.shape[dim]"}),
    Mutant("barrier_never", PLAN, {"plan.barrier[step] = true": "plan.barrier[step] = false"}),
    Mutant("barrier_not_after_reads", PLAN, {"(a.written || b.written)": "b.written"}),
    Mutant("barrier_not_after_writes", PLAN, {"(a.written || b.written)": "a.written"}),
    Mutant("barrier_beside_single_tiles", PLAN, {"!(a.single && b.single)": "!(a.single || b.single)"}),
    Mutant(
        "plan_arena_of_another_size",
        PROGRAM,
        {"fits(**it, parts_, frame)": "true", "(*it)->symbols == bucket": "true"},
    ),
    Mutant(
        "plan_of_a_smaller_bucket",
        PROGRAM,
        {"bucket_of(symbol)": "bucket_of(symbol / 2)", "!fits(*plan, parts_, frame)": "false"},
    ),
    Mutant("plan_single_tiles_assumed", PROGRAM, {"plan.single[i] && frame.tiles[i] > 1": "false",
                                                  "bucket_of(symbol)": "std::min<int64_t>(symbol, 4)"}),
]  # fmt: skip

HEAD = "#include <string_view>\n\nextern std::string_view gx_mutant;  // the name of the one that is on\n"


def planted(text: str, mutants: list[Mutant]) -> str:
    """The source with a choice at each edited expression."""
    choices: dict[str, list[tuple[str, str]]] = {}
    for mutant in mutants:
        for old, new in mutant.edits.items():
            choices.setdefault(old, []).append((mutant.name, new))
    for old, options in choices.items():
        flat = " ".join(old.split())
        places = spans(text, flat)
        if len(places) != 1:
            raise SystemExit(f"{options[0][0]}: '{flat}' is {len(places)} times in {mutants[0].file}, expected once")
        begin, end = places[0]
        chosen = text[begin:end]
        for name, new in options:
            chosen = f'(gx_mutant == "{name}" ? ({new}) : ({chosen}))'
        text = text[:begin] + chosen + text[end:]
    return HEAD + text


def spans(text: str, flat: str) -> list[tuple[int, int]]:
    """Begin and end of each place where the text is `flat`, whatever its line breaks."""
    pattern = r"\s+".join(map(re.escape, flat.split(" ")))
    return [match.span() for match in re.finditer(pattern, text)]


def main() -> None:
    root, output = Path(sys.argv[1]), Path(sys.argv[2])
    output.mkdir(parents=True, exist_ok=True)
    files = sorted({mutant.file for mutant in MUTANTS})
    if sys.argv[3:] == ["--files"]:
        print(";".join(files))
        return
    if sys.argv[3:] == ["--names"]:
        print(";".join(mutant.name for mutant in MUTANTS))
        return
    for file in files:
        text = planted((root / file).read_text(), [mutant for mutant in MUTANTS if mutant.file == file])
        (output / Path(file).name).write_text(text)


if __name__ == "__main__":
    main()
