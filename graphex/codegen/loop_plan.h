// How a loop is computed: which values are full, in which pass each is needed, and which of the three shapes of code
// fits.
#pragma once

#include <vector>

#include "graphex/codegen/loop_spec.h"

namespace graphex::codegen {

enum class LoopShape : uint8_t {
  kPoints,   // no reduction: tiles are runs of points
  kRows,     // tiles are rows; each row's passes run over the reduced dimensions
  kColumns,  // one pass whose operands are contiguous along the last outer dimension: blocks of rows side by side
};

struct LoopPlan {
  LoopShape shape = LoopShape::kPoints;
  int outer = 0;  // dimensions outside a row; the rest are walked within it
  int passes = 0;
  std::vector<bool> full;  // per instruction: varies within a row (stores: writes within a row)
  std::vector<int> stage;  // per instruction: passes that must be over before it can be computed
  std::vector<int> row_stores, full_stores;
  std::vector<std::vector<int>> row_values;   // per stage 0 .. passes: row instructions to compute, in order
  std::vector<std::vector<int>> pass_values;  // per pass: full instructions it needs, in order
  std::vector<std::vector<int>> reductions;   // per pass
  std::vector<int> kept;                      // full values that lie in the worker's scratch, by slot
  std::vector<std::vector<int>> kept_here;    // per pass: slots that it fills
  std::vector<std::vector<int>> taken_here;   // per pass: slots that it reads instead of computing the value
};

// The spec's instructions must be in order; see validate().
LoopPlan plan_loop(const LoopSpec& spec);
// The same plan for rows of one reduced dimension, with the results of dear functions (exp, ...) that a later pass
// needs again kept in scratch. Nothing is kept if the plan computes nothing dear twice.
LoopPlan keep_dear_values(const LoopSpec& spec, const LoopPlan& plan);
// Whether the operand moves along the dimensions within a row.
bool varies(const LoopSpec& spec, int operand);

inline constexpr int64_t kTilePoints = 1024;  // points of a tile, about
inline constexpr int64_t kSumBlock = 2048;    // addends of a partial sum
inline constexpr int64_t kColumnBlock = 256;  // rows that the column shape takes side by side

}  // namespace graphex::codegen
