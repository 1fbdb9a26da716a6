// Every pass of the compiler, in the order in which the pipeline runs them.
#ifndef MT_PASSES
#define MT_PASSES
include "mlir/Pass/PassBase.td"

def RecoverOps : Pass<"mt-recover-ops", "mlir::ModuleOp"> {
  let summary = "Recovers normalization, activations, rotary embedding and attention from what exporters decompose.";
  let description = [{
    Patterns match by structure, never by names; commuted operands, inserted reshapes and transposes do not matter.
    Masks become predicates by symbolic evaluation over indices (MaskPredicate.h), not by value, where the predicate of
    `nn.attention` says exactly what the mask does; any other mask stays a tensor (mt-remark-attention says which and why). Biases that
    depend on the distance of query and key, or on the difference of places in a window or a picture, become a line
    (AlongLine.h), tables of indices for that read by value where they are known; penalties between segments a number.
    Attention whose probabilities are dropped (`nn.dropout`) stays written out; its masks, where they are such predicates,
    become comparisons of positions, the same for all rows of the batch.

    ```mlir
    %0 = nn.sigmoid %x ...
    %1 = nn.mul %x, %0 ...
    ```
    becomes
    ```mlir
    %1 = nn.silu %x ...
    ```
  }];
  let dependentDialects = ["::mt::nn::NnDialect"];
}

def AppendLoss : Pass<"mt-append-loss", "mlir::ModuleOp"> {
  let summary = "Appends the loss to a model that ends in predictions, with its labels and the step's scalars.";
  let description = [{
    `@main` then returns the loss alone. A head product that only the loss uses becomes one operation with it, with
    the scale and the soft cap between them.

    ```mlir
    %l = nn.matmul %h, %w {transposeRhs = true} ...
    return %l
    ```
    becomes
    ```mlir
    %loss = nn.linear_cross_entropy %h, %w, %labels, %scalars ...
    return %loss
    ```
  }];
  let options = [Option<"loss", "loss", "std::string", "\"\"",
                        "causal-lm, cross-entropy, mse, output:NAME; empty: causal-lm for 3-D logits of an integer input">,
                 Option<"labelSmoothing", "label-smoothing", "double", "0",
                        "share of a cross-entropy that is the mean over all classes in place of the label's">,
                 Option<"zLoss", "z-loss", "double", "0", "times the square of the logsumexp, added to a cross-entropy">];
  let dependentDialects = ["::mt::nn::NnDialect"];
}

def AddAdapters : Pass<"mt-add-adapters", "mlir::ModuleOp"> {
  let summary = "Adds low-rank adapters to products with frozen weights, where the module asks for them.";
  let description = [{
    `mt.adapters` of the module names the weights, ranks and scales (passes/nn/Adapters.h). An adapter's two matrices are
    trained parameters of `@main` behind all others, [rank, in] and [out, rank], the second of zeros. A weight that no product
    takes as it is gets none, and its entry goes: embeddings, and the head, which is one operation with the loss by now.

    ```mlir
    %y = nn.matmul %x, %w {transposeRhs = true} ...
    ```
    becomes
    ```mlir
    %p = nn.matmul %x, %w {transposeRhs = true} ...
    %a = nn.matmul %x, %down {transposeRhs = true} ...
    %s = nn.mul %a, %scale ...
    %d = nn.matmul %s, %up {transposeRhs = true} ...
    %y = nn.add %p, %d ...
    ```
  }];
  let dependentDialects = ["::mt::nn::NnDialect"];
}

def JoinWeights : Pass<"mt-join-weights", "mlir::ModuleOp"> {
  let summary = "Makes one parameter of frozen ones that the model concatenates.";
  let description = [{
    Of parameters that nothing but one concatenation along dimension 0 uses, as matrices of experts that a checkpoint has
    apart, remains one, behind all others; `nn.pieces` names what it is of. Trained ones stay apart, with state of their own.

    ```mlir
    %s = nn.concat %w0, %w1 {axis = 0 : i64} : (tensor<1x8x4xf32>, tensor<1x8x4xf32>) -> tensor<2x8x4xf32>
    ```
    becomes the argument
    ```mlir
    %s: tensor<2x8x4xf32> {nn.parameter = "experts.*.weight", nn.pieces = ["experts.0.weight", "experts.1.weight"]}
    ```
  }];
  let dependentDialects = ["::mt::nn::NnDialect"];
}

def PackWeights : Pass<"mt-pack-weights", "mlir::ModuleOp"> {
  let summary = "Packs frozen weights of products in four bits each, and a scale for each block.";
  let description = [{
    A frozen parameter of at least two dimensions that products alone use, as their weight, becomes bytes; its scales are
    a parameter behind all others. Each product's weight is made from them before it, for itself: no gradient, and no
    place where it stays. Codes and scales are made when weights are loaded (`nn.packing`, docs/plan-format.md).

    ```mlir
    %y = nn.matmul %x, %w {transposeRhs = true} : (.., tensor<64x128xf32>) ...
    ```
    becomes
    ```mlir
    %r = nn.dequantize %w, %scales {axis = 1, bits = 4, block = 64, levels = ..} : (tensor<64x64xui8>, tensor<64x2xbf16>) -> tensor<64x128xf32>
    %y = nn.matmul %x, %r {transposeRhs = true} ...
    ```
  }];
  let dependentDialects = ["::mt::nn::NnDialect"];
}

def NumberRows : Pass<"mt-number-rows", "mlir::ModuleOp"> {
  let summary = "Gives random numbers the numbers of the batch's rows, so that micro-batches draw those of the batch.";
  let description = [{
    Follows the rows of the batch from the inputs (`RowsOpInterface`). Where elements that are drawn belong to rows, their
    operation gets the numbers of those, an argument `nn.rows` of `@main` that is fed like an input, and how the rows lie in
    it (`outer`). Elements that are the same for all rows have no such numbers. Says how much dropout there is.

    ```mlir
    %y = nn.dropout %x, %scalars, %node {ratio = 0.1} : (tensor<8x4xf32>, tensor<16xf64>, tensor<i64>) -> tensor<8x4xf32>
    ```
    becomes
    ```mlir
    %y = nn.dropout %x, %rows, %scalars, %node {outer = 1, ratio = 0.1} : (tensor<8x4xf32>, tensor<8xi64>, ...
    ```
  }];
  let dependentDialects = ["::mt::nn::NnDialect"];
}

def SplitBatch : Pass<"mt-split-batch", "mlir::ModuleOp"> {
  let summary = "Makes the function of a batch that of a micro-batch, so that micro-batches add up to the loss of the batch.";
  let description = [{
    Follows the rows of the batch from the inputs to the loss (`RowsOpInterface`). Where the loss is a sum over rows, or
    linear in such sums, with divisors that follow from data alone, the function is given fewer rows and computes its part
    of the loss: means over rows and what is the same for all rows are scaled by the micro-batch's share of the batch, and
    sums of data that anything else depends on become sums over the step. What the graph computes from the number of its
    rows stays that of the whole batch. Where the loss is no such sum, the module gets `nn.mixed`, which says why; that is an
    error if the micro-batch is smaller than the batch.

    ```mlir
    %n = nn.reduce %valid {kind = "sum", ...} : (tensor<8xf32>) -> tensor<f32>
    %m = nn.div %s, %n ...
    ```
    becomes, for micro-batches of two,
    ```mlir
    %n = nn.reduce %valid {kind = "sum", ...} : (tensor<2xf32>) -> tensor<f32>
    %a = nn.step_sum %n ...
    %m = nn.div %s, %a ...
    ```
    A graph that fixes its batch comes with fewer rows than the step has: then micro-batches have as many, if its loss is
    none of its own.
  }];
  let options = [Option<"batch", "batch", "int64_t", "0", "rows per step; 0: as many as the function takes">,
                 Option<"microBatch", "micro-batch", "int64_t", "0", "rows that it shall take; 0: as many as it does">];
  let dependentDialects = ["::mt::nn::NnDialect"];
}

def RemarkAttention : Pass<"mt-remark-attention", "mlir::ModuleOp"> {
  let summary = "Says which attention stayed written out and which masks stayed tensors, why, and how many bytes that takes.";
  let description = [{
    Changes nothing. The bytes are those of a micro-batch after mt-split-batch.
  }];
}

def LowerPrecision : Pass<"mt-lower-precision", "mlir::ModuleOp"> {
  let summary = "Gives the graph the types of mixed precision training: bf16 with 32 bits where it matters.";
  let description = [{
    By rules that sit on the operations (`PrecisionOpInterface`, the traits `FullPrecision` and `Movement`), never by
    names; casts are placed at the operations that want another type than they get:

    - products (`matmul`, `attention`, `linear_cross_entropy`) take bf16 and give bf16; kernels sum in 32 bits;
    - norms take what they get, compute in 32 bits and give bf16; their statistics have 32 bits; so it is where one is written
      as sums and products with statistics of few elements, as that by the batch's is: it is rounded behind its last sum;
    - `recurrence` takes what it gets and a bf16 weight; its states, which sum over steps, have 32 bits;
    - `rotary` keeps its operand's type and takes its tables in 32 bits; `random` gives 32 bits;
    - softmax, losses, reductions, running sums, powers, roots, exponentials, logarithms, trigonometric functions,
      quotients of tensors, and functions that saturate and whose gradient follows from their result (`tanh`, `sigmoid`,
      `erf`) take and give 32 bits;
    - everything else computes in the type that its operands join to: bf16 if all are, so that the residual stream is
      bf16 too. A constant number takes the other operand's type. A product that sums nothing is elementwise;
    - a trainable parameter is bf16, the upper half of its 32-bit master, but for gains and biases that norms alone use,
      which have 32 bits, as arithmetic on parameters alone has;
    - a frozen parameter, and what is computed from frozen ones alone, has the type that its users want, 32 bits if one
      of them does: rotary frequencies stay as they are;
    - inputs keep their type, and so does every value that the model has in another type than f32: an exported `Cast`
      is honoured.

    ```mlir
    func.func @main(%x: tensor<2x4xf32> {nn.input = "x"}, %w: tensor<4x4xf32> {nn.parameter = "w", nn.trainable}) ... {
      %0 = nn.matmul %x, %w ...
    ```
    becomes
    ```mlir
    func.func @main(%x: tensor<2x4xf32> {nn.input = "x"}, %w: tensor<4x4xbf16> {nn.parameter = "w", nn.trainable}) ... {
      %0 = nn.cast %x : (tensor<2x4xf32>) -> tensor<2x4xbf16>
      %1 = nn.matmul %0, %w : (tensor<2x4xbf16>, tensor<4x4xbf16>) -> tensor<2x4xbf16>
    ```
  }];
  let dependentDialects = ["::mlir::func::FuncDialect", "::mt::nn::NnDialect"];
}

def VerifyLookups : Pass<"mt-verify-lookups", "mlir::ModuleOp"> {
  let summary = "Refuses lookups by computed positions that lie beyond their table: a sequence longer than the model allows.";
  let description = [{
    Changes nothing. Indices that are affine in their coordinates are known; those that are fed are checked when they
    are.

    ```mlir
    %p = nn.iota {dimension = 0 : i64} : () -> tensor<128xi64>
    %e = nn.embedding %table, %p : (tensor<64x8xf32>, tensor<128xi64>) -> tensor<128x8xf32>
    ```
    is an error: entry 127 of 64.
  }];
}

def FuseEpilogues : Pass<"mt-fuse-epilogues", "mlir::ModuleOp"> {
  let summary = "Products and what stands beside them become operations that a device can compute in one pass.";
  let description = [{
    In the model's function, before it is differentiated, so that every rung computes the same operations:
    ```mlir
    %0 = nn.matmul %x, %w, %b
    %1 = nn.gelu %0 {form = "tanh"}
    ```
    becomes
    ```mlir
    %1, %0 = nn.matmul_gelu %x, %w, %b
    ```
    A sum with a product that nothing else uses becomes `nn.matmul_add`, here and in templates: residuals, and gradients of what
    several products use.

    In templates, after that: a sum with the gradient of a norm's operand becomes part of `nn.layer_norm_grad` or
    `nn.rms_norm_grad`, a sum of zero-padded parts side by side, as gradients of slices are, becomes their `nn.concat`,
    `nn.activation_grad` of a product that nothing else uses becomes `nn.matmul_gelu_grad`, and a
    weight's gradient with the sum over rows that is its bias's becomes `nn.matmul_sums`.
  }];
}

def PartitionLayers : Pass<"mt-partition-layers", "mlir::ModuleOp"> {
  let summary = "Cuts @main into layers and outlines each to a private function.";
  let description = [{
    A cut lies where exactly one value that depends on inputs and weights, trained or frozen, is carried to the rest; values
    that several later layers use are shared. Between cuts lie atoms; a period of the sequence of atoms, compared by the
    weights that they read and how, is a layer, or several where it holds blocks of several kinds (Partition.h). The
    function of the layer that gives the loss has the attribute `nn.loss`: however equal another one is, it is another
    template, in which gradients begin.

    ```mlir
    %1 = nn.add %0, %w0 ...
    %2 = nn.add %1, %w1 ...
    ```
    becomes
    ```mlir
    %1 = call @layer_0(%0, %w0) ...
    %2 = call @layer_1(%1, %w1) ...
    ```
  }];
  let dependentDialects = ["::mlir::func::FuncDialect", "::mt::nn::NnDialect"];
}

def Differentiate : Pass<"mt-differentiate", "mlir::ModuleOp"> {
  let summary = "Gives every template a backward template for each rung of the ladder of saved activations.";
  let description = [{
    For a template `@t` and the rungs `input`, `attention` and `all`: `@t.backward.RUNG`, and above the bottom rung
    `@t.forward.RUNG`, which also returns the saved activations. `all` leaves out norms and elementwise values that
    follow from what backward has anyway, by a few sums, products, conversions and relus before them, and from rows of few elements, which are
    saved for that: it makes them again, marked `nn.again`, in about the time of reading them; what was widened from bf16 is saved in bf16. Sums read
    what was widened as it was before. Arguments of backward templates carry `nn.argument = i` (an argument of `@t`),
    `nn.saved = j` or `nn.gradient = k` (the gradient of result k); results `nn.gradient = i` or `nn.result = k`.
    A template whose result is the loss has its backward compute the loss too. Calls in `@main` get `nn.backward`, the
    stem of their backward templates' names. No gradient goes through `nn.detach`, which is gone afterwards, nor through what is
    flat with jumps: floor, ceil, round, sign. Gradients have their value's type; those of bf16 parameters, which
    micro-batches add up, and of bf16 values that several layers use, which layers add up, have 32 bits.

    ```mlir
    func.func private @t(%x: tensor<2x3xf32>, %w: tensor<3x4xf32>) -> tensor<2x4xf32>
    ```
    gains
    ```mlir
    func.func private @t.backward.input(%x {nn.argument = 0}, %w {nn.argument = 1}, %dy {nn.gradient = 0})
        -> (tensor<2x3xf32> {nn.gradient = 0}, tensor<3x4xf32> {nn.gradient = 1})
    ```
  }];
  let dependentDialects = ["::mlir::func::FuncDialect", "::mt::nn::NnDialect"];
}

def StripLossTerms : Pass<"mt-strip-loss-terms", "mlir::ModuleOp"> {
  let summary = "Takes label smoothing and z-loss off the losses that evaluations call.";
  let description = [{
    Training calls the gradients, which compute the loss again, with both: what is left are the layers themselves.

    ```mlir
    %loss = nn.cross_entropy %x, %labels, %scalars {labelSmoothing = 0.1 : f64} ...
    %again, %dx = nn.cross_entropy_grad %x, %labels, %scalars {labelSmoothing = 0.1 : f64} ...
    ```
    becomes
    ```mlir
    %loss = nn.cross_entropy %x, %labels, %scalars ...
    %again, %dx = nn.cross_entropy_grad %x, %labels, %scalars {labelSmoothing = 0.1 : f64} ...
    ```
  }];
}

def AddPredictions : Pass<"mt-add-predictions", "mlir::ModuleOp"> {
  let summary = "Gives a language model's last layer a template that also predicts the next token, for evaluations.";
  let description = [{
    Beside the loss it returns logits [rows, vocabulary], in 32 bits, of one token a row: the last one whose label counts.
    Those of a text of n tokens with the one label n - 1 are what comes after it. The template is the layer's with `.predict`
    behind its name; models whose loss is their own have none.

    ```mlir
    func.func private @layer2(...) -> tensor<f32>
    ```
    gets beside it
    ```mlir
    func.func private @layer2.predict(...) -> (tensor<f32>, tensor<2x256xf32>)
    ```
  }];
  let dependentDialects = ["::mt::nn::NnDialect"];
}

def FuseElementwise : Pass<"mt-fuse-elementwise", "mlir::ModuleOp"> {
  let summary = "Elementwise operations of templates that use each other become one, which moves no value between them.";
  let description = [{
    ```mlir
    %0 = nn.mul %x, %gain : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
    %1 = nn.tanh %0
    %2 = nn.add %1, %y
    ```
    becomes
    ```mlir
    %2 = nn.elementwise %x, %gain, %y {expression = "mul 0 1:f32, tanh 3:f32, add 4 2:f32 -> 5"}
    ```
    Values of a shape are computed together where one uses another, or they stand near and read the same, and nothing that is
    computed from one of them is needed for another by what stays outside; what stays outside and uses one takes it as a result. What is broadcast is read where it lies, constants
    are part of the expression, and a type's conversion is made again for each that uses it. Every value is rounded to its
    type: no bit of the template changes, in any rung.

    Sums or means of what is computed, or read, over the same dimensions become part of it, where whatever may execute the plan has code for that, as a
    CPU does whose memory is the device's:
    ```mlir
    %0 = nn.sub %x, %mean
    %1 = nn.mul %0, %0
    %2 = nn.reduce %1 {axes = array<i64: 0, 2, 3>, kind = "mean", ...}
    ```
    becomes
    ```mlir
    %2 = nn.elementwise_sums %x, %mean {expression = "sub 0 1:f32, mul 2 2:f32 -> 3", sums = 1, kind = "mean", axes = array<i64: 0, 2, 3>}
    ```
  }];
  let dependentDialects = ["::mt::nn::NnDialect"];
}

def SelectKernels : Pass<"mt-select-kernels", "mlir::ModuleOp"> {
  let summary = "Fits templates to the kernel catalogue: chunks, results that are views, kernels that accumulate.";
  let description = [{
    Afterwards every operation of a template has a kernel and names the model's node (`nn.node`), every result of a
    template has a place of its own, and a gradient's kernel can add to what is there.

    ```mlir
    func.func private @t(%x: tensor<4xf32>) -> tensor<2x2xf32> {
      %0 = nn.reshape %x ...
      return %0
    ```
    becomes
    ```mlir
      %0 = nn.reshape %x ...
      %1 = nn.copy %0 ...
      return %1
    ```
  }];
  let dependentDialects = ["::mt::nn::NnDialect"];
}

def PlanTemplates : Pass<"mt-plan-templates", "mlir::ModuleOp"> {
  let summary = "Gives every intermediate value of a template an offset in its workspace.";
  let description = [{
    Functions get `nn.workspace` (bytes); operations `nn.offsets`, one offset a result and one for the kernel's
    scratch, -1 where the result is one of the template's or unused.

    ```mlir
    %0 = nn.exp %x {nn.offsets = array<i64: 0>} ...
    ```
  }];
  let options = [Option<"alignment", "alignment", "int64_t", "64", "of every offset, in bytes">];
  let dependentDialects = ["::mt::nn::NnDialect"];
}

def BuildSchedule : Pass<"mt-build-schedule", "mlir::ModuleOp"> {
  let summary = "Lists slots and commands of all programs in issue order.";
  let description = [{
    It executes the decisions that the module states (on calls `mt.saved`, `mt.kept`, `mt.resident`, `mt.state_streamed`, `mt.speculative`, `mt.state_in_file`, `mt.gradient_in_file`, `mt.summed`, `mt.together`, `mt.parts`,
    `mt.late`, `mt.late_down`, `mt.parked`, `mt.parked_saved`; of the step `mt.limits`,
    `mt.batch_shared`, `mt.speculative_first`) and decides nothing: commands come from planner/Builder.h, their order and the
    predicted `start` and `end` of each from planner/Order.h. Where a module states none, it is what needs least memory. What is not given as an option
    is as the module states it (`mt.settings`, `mt.target`), else the default; what was done is stated there afterwards,
    and is what plans made of the schedule say.

    ```mlir
    %1 = call @block(%0, %w) ...
    ```
    becomes
    ```mlir
    schedule.prefetch step 0 "weights layer 1" ...
    schedule.compute step 1 "forward layer 1 mb 0" @block(...) ...
    ```
  }];
  let options = [
    Option<"target", "target", "std::string", "\"cpu\"", "name of a target, or a JSON file">,
    Option<"batch", "batch", "int64_t", "0", "rows per step; 0: one micro-batch">,
    Option<"rung", "saved-activations", "std::string", "\"input\"", "input, attention or all, of every layer">,
    Option<"residency", "residency", "std::string", "\"none\"", "of all layers on the device: none, weights (in a step) or state (always)">,
    Option<"summed", "summed", "int64_t", "1", "micro-batches whose gradients are added up on the device, of all layers: a power of two; the host adds the rest">,
    Option<"park", "park", "bool", "true", "keep saved activations on the host where backward is far">,
    Option<"speculate", "speculate", "bool", "false", "with clipping, the host updates before the norm is known where it can">,
    Option<"distance", "prefetch-distance", "int64_t", "1", "the most phases that weights are prefetched ahead">,
    Option<"clip", "clip", "bool", "false", "exact clipping by the global norm">,
    Option<"optimizer", "optimizer", "std::string", "\"adamw\"", "of parameters that name no other (kernels/Optimizers.h)">
  ];
  let dependentDialects = ["::mt::schedule::ScheduleDialect"];
}

def PlanMemory : Pass<"mt-plan-memory", "mlir::ModuleOp"> {
  let summary = "Gives every slot an offset in its space; fails where a space exceeds its budget.";
  let description = [{
    Persistent slots come first, then each program's slots, packed by their lifetimes in issue order. The module's
    spaces get their exact `bytes`. Over budget is an error that names the peak, the moment, the largest slots and the
    smallest budget that fits.

    ```mlir
    %0 = schedule.slot "a" : !schedule.slot<device, 100>
    ```
    becomes
    ```mlir
    %0 = schedule.slot "a" at 0 : !schedule.slot<device, 100>
    ```
  }];
  let options = [
    Option<"deviceMemory", "device-memory", "int64_t", "0", "budget of each device space in bytes; 0: none">,
    Option<"hostMemory", "host-memory", "int64_t", "0", "budget of all host spaces together in bytes; 0: none">,
    Option<"slack", "slack", "int64_t", "4", "commands by which lifetimes are stretched where the budget allows and another stream may be next">,
    Option<"brief", "brief", "bool", "false", "whether devices are packed with less effort where the host is too small">
  ];
  let dependentDialects = ["::mt::schedule::ScheduleDialect"];
}

def PlaceEvents : Pass<"mt-place-events", "mlir::ModuleOp"> {
  let summary = "Computes the awaits of every command from byte hazards (Hazards.h).";
  let description = [{
    ```mlir
    schedule.compute step 1 "c" ... offsets [0] effects [0] : ...
    ```
    becomes, where command 3 brought the bytes on another stream,
    ```mlir
    schedule.compute step 1 "c" ... offsets [0] effects [0] awaits [3, 0] : ...
    ```
  }];
  let dependentDialects = ["::mt::schedule::ScheduleDialect"];
}

def VerifySchedule : Pass<"mt-verify-schedule", "mlir::ModuleOp"> {
  let summary = "Checks by other algorithms that awaits order every two commands that touch overlapping bytes, and that what is read of a slot was written there.";
  let description = [{
    Changes nothing. An uncovered pair is an error that names both commands and the bytes:

    ```
    error: 'compute layer 1' reads bytes that 'prefetch layer 1' writes and does not await it
    ```

    So is a command that reads bytes of a slot which another slot's command has written over, in two steps and finish
    after them, or in another program:

    ```
    error: 'update layer 12' reads bytes [0, 4096) of slot 'landed gradients layer 12', which 'gradients layer 0' has written over
    ```
  }];
}
#endif
