// The map of the optimiser: which passes run, in which order, and why there.
#include "graphex/passes/passes.h"

namespace graphex::passes {

const std::vector<Pass>& pipeline() {
  static const std::vector<Pass> kPipeline = {
      {"remove_unused", remove_unused},  // frontends may emit more than is needed
      {"merge_common", merge_common},    // a mask built in every layer becomes one; before matching by identity
      {"fold_grouped_heads", fold_grouped_heads},  // attention reads few heads for many
      {"bound_masks", bound_masks},                // masks that are comparisons of positions become loop bounds
      {"remove_unused", remove_unused},            // what the rewrites left behind
  };
  return kPipeline;
}

}  // namespace graphex::passes
