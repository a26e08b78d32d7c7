// What the rest of the compiler may ask about an operator. Passes, storage and kernel choice read traits; none lists
// names.
#pragma once

#include <string_view>

#include "graphex/ir/graph.h"

namespace graphex::ops {

enum class OpKind : uint8_t {
  kScalar,     // one result element from one element of each operand: name in base/scalar_ops.def
  kCast,       // as kScalar, by the dtypes
  kSource,     // elements from their position alone: full, iota
  kCopy,       // the operand's elements in another layout
  kView,       // a layout over the operand's base
  kReduction,  // one element from all along `dims`; associative
  kKernel,     // a kernel of its own
  kIsland,     // a call back into the host
};

struct OpDef {
  std::string_view name;
  OpKind kind;
  int min_inputs;
  int max_inputs;       // -1: any number
  int overwrites = -1;  // operand whose memory the result may take over when nobody needs its old value
  // Throws Error(kInvalidArgument) naming the node if operands, results and attributes don't fit.
  void (*check)(const ir::Node&) = nullptr;
  size_t results = 1;  // an island has any number
};

// Null when there is no such operator.
const OpDef* find_op(std::string_view name);
// The operator of a node of a verified graph.
const OpDef& op_of(const ir::Node& node);
std::vector<const OpDef*> all_ops();

// Structure and types of the whole graph: known operators, definitions before uses, unique names, type rules, writes to
// inputs of the same type. Throws Error(kInvalidArgument) whose message names the node.
void verify(const ir::Graph& graph);

// The shape that the operands' shapes broadcast to; throws if they don't. `node` is for the message.
std::vector<ir::Expr> broadcast_shape(const ir::Node& node);

// The value that a chain of views starts from, itself when it isn't a view.
ir::Value* base_of(ir::Value* value);

// Float types that compute in f32 stand for f32; all others for themselves.
constexpr DType compute_type(DType dtype) { return is_reduced_float(dtype) ? DType::kF32 : dtype; }

}  // namespace graphex::ops
