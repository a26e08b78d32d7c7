// Removes nodes whose results nothing needs.
//   %a = f(%x)   (no use)   ->   (nothing)
#include "graphex/passes/passes.h"

namespace graphex::passes {

void remove_unused(ir::Graph& graph) { graph.sweep(); }

}  // namespace graphex::passes
