// Where every base lives: the one place that decides on sharing memory.
//
// Values never change, so memory may be shared only where nobody can see the difference: a written input's own memory
// for the value that it will hold, a dead operand's memory for the result of an operator that overwrites a part of it.
// All readers of the old value must come before the writer in the schedule. Everything else gets memory of its own.
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "graphex/compile/unit.h"

namespace graphex::compile {

enum class Home : uint8_t { kInput, kHost, kArena };

struct Block {
  Home home;
  int input = -1;         // kInput
  ir::Expr bytes;         // kHost, kArena
  bool result = false;    // kHost: holds an output
  int first = INT32_MAX;  // first and last unit that touches it
  int last = -1;
};

struct Place {
  int block = -1;
  ir::Expr offset;  // in elements of the value
};

struct Storage {
  std::vector<Block> blocks;
  std::unordered_map<const ir::Value*, Place> places;  // of bases
  // Overwriting nodes whose result lies in its operand's memory: no copy before them.
  std::unordered_map<const ir::Node*, bool> in_place;
  // Writes whose value isn't made in the input's memory: copied at the end.
  std::vector<ir::Write> copies;

  const Place& place(const ir::Value* base) const { return places.at(base); }
};

// Rewrites the graph so that each write and output can be stored soundly: a value that is (a view of) an input which is
// written, or that is written and also returned, is copied first. Run before form_units.
void isolate_effects(ir::Graph& graph);

Storage assign_storage(const ir::Graph& graph, const std::vector<std::unique_ptr<Unit>>& units);

}  // namespace graphex::compile
