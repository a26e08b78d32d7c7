#include "graphex/codegen/loop_frame.h"

#include <algorithm>

namespace graphex::codegen {
namespace {

llvm::Type* element_type(DType dtype, llvm::LLVMContext& context) {
  return llvm::Type::getIntNTy(context, static_cast<unsigned>(8 * size_of(dtype)));
}

llvm::MDNode* loop_node(llvm::LLVMContext& context, const LoopMark& mark) {
  const auto property = [&](const char* name, llvm::Metadata* value) {
    return llvm::MDNode::get(context, {llvm::MDString::get(context, name), value});
  };
  llvm::SmallVector<llvm::Metadata*, 4> parts = {nullptr};
  parts.push_back(property("llvm.loop.parallel_accesses", mark.group));
  if (mark.interleave > 0) {
    auto* count = llvm::ConstantInt::get(llvm::Type::getInt32Ty(context), static_cast<uint64_t>(mark.interleave));
    parts.push_back(property("llvm.loop.interleave.count", llvm::ConstantAsMetadata::get(count)));
  }
  llvm::MDNode* node = llvm::MDNode::getDistinct(context, parts);
  node->replaceOperandWith(0, node);
  return node;
}

}  // namespace

LoopMark LoopMark::make(llvm::LLVMContext& context, int interleave) {
  return {llvm::MDNode::getDistinct(context, {}), interleave};
}

LoopFrame::LoopFrame(const LoopSpec& spec, const LoopPlan& plan, const std::string& entry, llvm::Module& module)
    : spec_(spec), plan_(plan), module_(module), b_(module.getContext()), entry_(entry) {
  llvm::Type *pointer = b_.getPtrTy(), *number = b_.getInt64Ty();
  auto* type = llvm::FunctionType::get(b_.getVoidTy(), {pointer, pointer, number, number, pointer}, false);
  auto* kernel = llvm::Function::Create(type, llvm::GlobalValue::ExternalLinkage, entry, module);
  begin_ = kernel->getArg(2);
  end_ = kernel->getArg(3);
  open(kernel, kernel->getArg(1));
  load_operands(kernel->getArg(0));
}

void LoopFrame::open(llvm::Function* function, llvm::Value* sizes) {
  b_.SetInsertPoint(llvm::BasicBlock::Create(module_.getContext(), "entry", function));
  int64_t at = 0;
  const auto next = [&] {
    llvm::Value* address = b_.CreateConstInBoundsGEP1_64(b_.getInt64Ty(), sizes, static_cast<uint64_t>(at++));
    return b_.CreateLoad(b_.getInt64Ty(), address);
  };
  extents_.clear();
  for (int d = 0; d < spec_.rank; ++d) extents_.push_back(next());
  strides_.assign(spec_.operands.size(), {});
  for (size_t o = 0; o < spec_.operands.size(); ++o)
    for (const StrideKind kind : spec_.operands[o].strides)
      strides_[o].push_back(kind == StrideKind::kZero ? nullptr : kind == StrideKind::kUnit ? constant(1) : next());
  arguments_.clear();
  for (int i = 0; i < spec_.arguments; ++i) arguments_.push_back(next());
}

void LoopFrame::load_operands(llvm::Value* pointers) {
  for (size_t o = 0; o < spec_.operands.size(); ++o)
    pointers_.push_back(b_.CreateLoad(b_.getPtrTy(), b_.CreateConstInBoundsGEP1_64(b_.getPtrTy(), pointers, o)));
}

llvm::Value* LoopFrame::volume(int first, int last) {
  llvm::Value* result = constant(1);
  for (int d = first; d < last; ++d) result = b_.CreateMul(result, extents_[d]);
  return result;
}

llvm::Value* LoopFrame::smaller(llvm::Value* a, llvm::Value* b) {
  return b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, a, b);
}
llvm::Value* LoopFrame::larger(llvm::Value* a, llvm::Value* b) {
  return b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, a, b);
}

llvm::Value* LoopFrame::step(int operand, llvm::Value* pointer, int dim, llvm::Value* index) {
  llvm::Value* stride = strides_[operand][dim];
  if (!stride) return pointer;
  llvm::Value* offset =
      spec_.operands[operand].strides[dim] == StrideKind::kUnit ? index : b_.CreateNSWMul(index, stride);
  return b_.CreateInBoundsGEP(element_type(spec_.operands[operand].dtype, module_.getContext()), pointer, offset);
}

llvm::Value* LoopFrame::scratch(llvm::Type* type, int64_t count) {
  llvm::BasicBlock& entry = b_.GetInsertBlock()->getParent()->getEntryBlock();
  llvm::IRBuilder<> at_start(&entry, entry.begin());
  auto* memory = at_start.CreateAlloca(llvm::ArrayType::get(type, static_cast<uint64_t>(count)));
  memory->setAlignment(llvm::Align(64));
  return memory;
}

llvm::Value* LoopFrame::worker_scratch() {
  return b_.CreateLoad(b_.getPtrTy(), b_.GetInsertBlock()->getParent()->getArg(4));
}

IrValues LoopFrame::loop(llvm::Value* first, llvm::Value* last, int64_t by, const IrValues& carried, Body body,
                         const LoopMark* mark) {
  llvm::Function* function = b_.GetInsertBlock()->getParent();
  llvm::BasicBlock* before = b_.GetInsertBlock();
  auto* inside = llvm::BasicBlock::Create(module_.getContext(), "loop", function);
  auto* after = llvm::BasicBlock::Create(module_.getContext(), "after", function);
  b_.CreateCondBr(b_.CreateICmpSLT(first, last), inside, after);
  b_.SetInsertPoint(inside);
  llvm::PHINode* i = b_.CreatePHI(b_.getInt64Ty(), 2);
  i->addIncoming(first, before);
  llvm::SmallVector<llvm::PHINode*, 4> phis;
  IrValues current;
  for (llvm::Value* value : carried) {
    phis.push_back(b_.CreatePHI(value->getType(), 2));
    phis.back()->addIncoming(value, before);
    current.push_back(phis.back());
  }
  const IrValues next = body(i, current);
  llvm::BasicBlock* latch = b_.GetInsertBlock();
  llvm::Value* following = b_.CreateNSWAdd(i, constant(by));
  auto* branch = b_.CreateCondBr(b_.CreateICmpSLT(following, last), inside, after);
  if (mark) branch->setMetadata(llvm::LLVMContext::MD_loop, loop_node(module_.getContext(), *mark));
  i->addIncoming(following, latch);
  b_.SetInsertPoint(after);
  IrValues results;
  for (size_t k = 0; k < carried.size(); ++k) {
    phis[k]->addIncoming(next[k], latch);
    llvm::PHINode* result = b_.CreatePHI(carried[k]->getType(), 2);
    result->addIncoming(carried[k], before);
    result->addIncoming(next[k], latch);
    results.push_back(result);
  }
  return results;
}

void LoopFrame::loop(llvm::Value* first, llvm::Value* last, llvm::function_ref<void(llvm::Value*)> body,
                     const LoopMark* mark) {
  const auto with_nothing = [&](llvm::Value* i, const IrValues&) {
    body(i);
    return IrValues();
  };
  loop(first, last, 1, {}, with_nothing, mark);
}

void LoopFrame::leap(llvm::Value* first, llvm::Value* last, llvm::function_ref<llvm::Value*(llvm::Value*)> body) {
  llvm::Function* function = b_.GetInsertBlock()->getParent();
  llvm::BasicBlock* before = b_.GetInsertBlock();
  auto* inside = llvm::BasicBlock::Create(module_.getContext(), "leap", function);
  auto* after = llvm::BasicBlock::Create(module_.getContext(), "after", function);
  b_.CreateCondBr(b_.CreateICmpSLT(first, last), inside, after);
  b_.SetInsertPoint(inside);
  llvm::PHINode* i = b_.CreatePHI(b_.getInt64Ty(), 2);
  i->addIncoming(first, before);
  llvm::Value* next = body(i);
  i->addIncoming(next, b_.GetInsertBlock());
  b_.CreateCondBr(b_.CreateICmpSLT(next, last), inside, after);
  b_.SetInsertPoint(after);
}

void LoopFrame::when(llvm::Value* condition, llvm::function_ref<void()> body) {
  llvm::Function* function = b_.GetInsertBlock()->getParent();
  auto* inside = llvm::BasicBlock::Create(module_.getContext(), "when", function);
  auto* after = llvm::BasicBlock::Create(module_.getContext(), "after", function);
  b_.CreateCondBr(condition, inside, after);
  b_.SetInsertPoint(inside);
  body();
  b_.CreateBr(after);
  b_.SetInsertPoint(after);
}

// The row `number`; *run becomes how many rows from there to `last` differ only in the last outer dimension.
LoopRow LoopFrame::row_at(llvm::Value* number, llvm::Value* last, llvm::Value** run) {
  LoopRow row{number, IrValues(pointers_.begin(), pointers_.end()), IrValues(static_cast<size_t>(spec_.rank), nullptr)};
  const int inner = plan_.outer - 1;
  llvm::Value* rest = number;
  for (int d = inner; d >= 0; --d) {
    llvm::Value* above = d > 0 ? b_.CreateUDiv(rest, extents_[d]) : nullptr;
    row.index[d] = above ? b_.CreateSub(rest, b_.CreateMul(above, extents_[d])) : rest;
    rest = above;
  }
  for (size_t o = 0; o < row.base.size(); ++o)
    for (int d = 0; d < plan_.outer; ++d) row.base[o] = step(static_cast<int>(o), row.base[o], d, row.index[d]);
  *run = b_.CreateSub(last, number);
  if (inner > 0) *run = smaller(*run, b_.CreateSub(extents_[inner], row.index[inner]));
  return row;
}

void LoopFrame::advance(LoopRow& row, llvm::Value* steps) {
  const int inner = plan_.outer - 1;
  for (size_t o = 0; o < row.base.size(); ++o) row.base[o] = step(static_cast<int>(o), row.base[o], inner, steps);
  row.index[inner] = b_.CreateAdd(row.index[inner], steps);
  row.number = b_.CreateAdd(row.number, steps);
}

void LoopFrame::row_blocks(llvm::Value* first, llvm::Value* last, int64_t most,
                           llvm::function_ref<void(const LoopRow&, llvm::Value*)> body) {
  leap(first, last, [&](llvm::Value* number) {
    llvm::Value* run = nullptr;
    const LoopRow row = row_at(number, last, &run);
    if (most > 0) run = smaller(run, constant(most));
    body(row, run);
    return b_.CreateAdd(number, run);
  });
}

void LoopFrame::rows(llvm::Value* first, llvm::Value* last, llvm::function_ref<void(const LoopRow&)> body) {
  if (plan_.outer == 0) {
    llvm::Value* run = nullptr;
    when(b_.CreateICmpSLT(first, last), [&] { body(row_at(first, last, &run)); });
    return;
  }
  row_blocks(first, last, 0, [&](const LoopRow& start, llvm::Value* run) {
    loop(constant(0), run, [&](llvm::Value* i) {
      LoopRow row = start;
      advance(row, i);
      body(row);
    });
  });
}

void LoopFrame::finish(llvm::function_ref<llvm::Value*()> count) {
  b_.CreateRetVoid();
  auto* type = llvm::FunctionType::get(b_.getInt64Ty(), {b_.getPtrTy()}, false);
  auto* tiles = llvm::Function::Create(type, llvm::GlobalValue::ExternalLinkage, entry_ + "_tiles", module_);
  open(tiles, tiles->getArg(0));
  b_.CreateRet(count());
}

}  // namespace graphex::codegen
