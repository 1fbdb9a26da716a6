// mt-plan-templates: offsets of intermediate values in each template's workspace, by the packer.
#include "compiler/nn/KernelCall.h"
#include "kernels/DeviceScratch.h"
#include "passes/Passes.h"
#include "passes/algorithms/Packer.h"
#include "passes/algorithms/VerifyPacking.h"

using namespace mlir;

namespace mt {
#define GEN_PASS_DEF_PLANTEMPLATES
#include "passes/Passes.h.inc"
using namespace nn;

namespace {
struct PlanTemplates : impl::PlanTemplatesBase<PlanTemplates> {
  using PlanTemplatesBase::PlanTemplatesBase;

  /// Values that need a place: of each operation its used results that the template does not return, then its scratch.
  struct Request {
    Operation *op;
    int64_t place; ///< index into nn.offsets
  };

  /// Says which attention in 16 bits, and which convolution, cuDNN cannot do.
  static void explain(Operation &op, const kernels::Signature &call) {
    if (call.kernel.starts_with("conv"))
      if (std::string_view refusal = kernels::GraphConvolution::of(call).refusal; !refusal.empty())
        op.emitRemark() << "a convolution goes straight from its definition and not through cuDNN, which is slower: "
                        << refusal;
    const bool gradient = call.kernel == "attention_grad";
    if ((!gradient && call.kernel != "attention") || call.operands[gradient ? 1 : 0].type == kernels::DType::f32)
      return;
    if (std::string_view refusal = kernels::FusedAttention::of(call).refusal; !refusal.empty())
      op.emitRemark() << "attention goes by blocks of queries and not through cuDNN, which is slower: " << refusal;
  }

  void plan(func::FuncOp function, kernels::Backend backend) {
    Block &block = function.front();
    llvm::DenseMap<Operation *, uint32_t> moments;
    for (auto [i, op] : llvm::enumerate(block))
      moments[&op] = i;
    llvm::DenseSet<Value> returned;
    for (Value value : block.getTerminator()->getOperands())
      returned.insert(viewedBy(value));
    llvm::DenseMap<Value, uint32_t> lastUse;
    for (Operation &op : block)
      for (Value operand : op.getOperands())
        lastUse[viewedBy(operand)] = moments[&op];

    std::vector<passes::SlotRequest> slots;
    std::vector<Request> requests;
    llvm::MapVector<Operation *, SmallVector<int64_t>> offsets;
    for (Operation &op : block.without_terminator()) {
      if (!hasKernel(&op))
        continue;
      const kernels::Signature call = kernelCallOf(&op).signature;
      if (backend == kernels::Backend::cuda)
        explain(op, call);
      uint32_t now = moments[&op];
      auto &places = offsets[&op];
      for (Value result : op.getResults()) {
        places.push_back(-1);
        if (result.use_empty() || returned.contains(result))
          continue;
        requests.push_back({&op, int64_t(places.size()) - 1});
        slots.push_back({uint64_t(schedule::bytesOf(result.getType())), now, lastUse.lookup(result), uint64_t(alignment)});
      }
      places.push_back(-1);
      if (uint64_t bytes = kernels::workspaceBytes(call, backend)) {
        requests.push_back({&op, int64_t(places.size()) - 1});
        slots.push_back({bytes, now, now, uint64_t(alignment)});
      }
    }
    passes::Packing packing = passes::pack(slots);
    if (Status checked = passes::verifyPacking(slots, packing.offsets, packing.bytes, moments.size()); !checked.ok()) {
      function.emitError() << checked.message();
      return signalPassFailure();
    }
    for (auto [request, offset] : llvm::zip(requests, packing.offsets))
      offsets[request.op][request.place] = offset;
    Builder builder(&getContext());
    for (auto &[op, places] : offsets)
      op->setAttr("nn.offsets", builder.getDenseI64ArrayAttr(places));
    function->setAttr("nn.workspace", builder.getI64IntegerAttr(packing.bytes));
  }

  void runOnOperation() override {
    kernels::Backend backend = backendOf(getOperation());
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (function.getName() != kMainName && !function.isExternal())
        plan(function, backend);
  }
};
} // namespace
} // namespace mt
