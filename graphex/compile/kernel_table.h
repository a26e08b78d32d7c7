// Which kernel serves which operator. A row fills in the kernel's contract (graphex/kernels/*/*.h) from the node.
#pragma once

#include <map>
#include <string_view>

#include "graphex/compile/lowering.h"

namespace graphex::compile {

using KernelLowering = void (*)(Lowering&, ir::Node&);

struct KernelRow {
  KernelLowering lower;
  bool (*fits)(const ir::Node&);  // whether the kernel takes these types and layouts
};

using KernelTable = std::map<std::string_view, KernelRow>;

KernelTable indexing_kernels();
KernelTable line_kernels();

// Null when there is no kernel for the node.
KernelLowering kernel_for(const ir::Node& node);

// Strides that broadcast `type` to a result of `rank` dimensions; sizes of 1 don't move.
std::vector<ir::Expr> broadcast_strides(const ir::Type& type, int rank);

}  // namespace graphex::compile
