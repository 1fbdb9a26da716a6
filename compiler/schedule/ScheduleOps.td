// The schedule dialect: slots, and the commands that move and compute on them.
#ifndef MT_SCHEDULE_OPS
#define MT_SCHEDULE_OPS
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/BuiltinAttributes.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpBase.td"
include "mlir/IR/SymbolInterfaces.td"

def Schedule_Dialect : Dialect {
  let name = "schedule";
  let cppNamespace = "::mt::schedule";
  let summary = "Static, explicitly ordered movement and compute of training programs.";
  let description = [{
    One function, `@schedule`, lists the slots and then the commands of every program in issue order. A command names
    its stream; commands of a stream run in order, streams run at once. What else must be ordered is computed:
    `mt-plan-memory` gives every slot an offset, `mt-place-events` then gives every command the commands it awaits.
    An await is a pair (index of a command in its program, iterations back), because a cyclic program awaits commands
    of its previous iteration, which come later in the text. A step may leave updates to the next one; program `finish` does
    them in the same order when there is none, so that slots share bytes in it as they do there (`mt-verify-schedule`).

    Spaces and streams are declared on the module (`schedule.spaces`, `schedule.streams`); nothing assumes their number.

    ```mlir
    %w = schedule.slot "weights layer 3" persistent : !schedule.slot<"staging", 4096>
    %d = schedule.slot "device weights layer 3" : !schedule.slot<"device", 4096>
    schedule.prefetch step 0 "weights layer 3" %w[0] to %d[0] bytes 4096 : !schedule.slot<"staging", 4096> to !schedule.slot<"device", 4096>
    schedule.compute step 1 "forward layer 3 mb 0" @block(%d, %d) offsets [0, 64] effects [0, 1] : !schedule.slot<"device", 4096>, !schedule.slot<"device", 4096>
    ```
  }];
  let useDefaultTypePrinterParser = 1;
}

def Schedule_Slot : TypeDef<Schedule_Dialect, "Slot"> {
  let mnemonic = "slot";
  let summary = "A byte range of a space, with a lifetime.";
  let parameters = (ins StringRefParameter<"name of the space">:$space, "int64_t":$bytes);
  let assemblyFormat = "`<` $space `,` $bytes `>`";
}

class Schedule_Enum<string name, string text, list<string> cases>
    : I32EnumAttr<name, text, !foreach(i, !range(!size(cases)), I32EnumAttrCase<cases[i], i>)> {
  let cppNamespace = "::mt::schedule";
}
def Schedule_Program : Schedule_Enum<"Program", "a list of commands", ["step", "finish", "evaluate", "load", "store"]>;

class Schedule_Op<string mnemonic, list<Trait> traits = []> : Op<Schedule_Dialect, mnemonic, traits>;

def Schedule_SlotOp : Schedule_Op<"slot"> {
  let summary = "Declares a slot; `persistent` ones live through all programs. `mt-plan-memory` gives the offset.";
  let arguments = (ins StrAttr:$name, UnitAttr:$persistent, OptionalAttr<I64Attr>:$offset);
  let results = (outs Schedule_Slot:$slot);
  let assemblyFormat = "$name (`persistent` $persistent^)? (`at` $offset^)? attr-dict `:` type($slot)";
}

// What all commands share. `layer` and `microBatch` are -1 where none applies; `seconds` are what it takes alone, `start`
// and `end` are predicted, in the program's steady state; `awaits` lists pairs.
defvar CommandAttributes = (ins Schedule_Program:$program, I64Attr:$stream, StrAttr:$label,
  DefaultValuedAttr<I64Attr, "-1">:$layer, DefaultValuedAttr<I64Attr, "-1">:$microBatch,
  DefaultValuedAttr<F64Attr, "0.0">:$seconds, OptionalAttr<F64Attr>:$start, OptionalAttr<F64Attr>:$end,
  OptionalAttr<DenseI64ArrayAttr>:$awaits);

class Schedule_CopyOp<string mnemonic, string text> : Schedule_Op<mnemonic> {
  let summary = text;
  let arguments = !con((ins Schedule_Slot:$source, Schedule_Slot:$target, I64Attr:$sourceOffset, I64Attr:$targetOffset,
                            I64Attr:$bytes), CommandAttributes);
  let assemblyFormat = [{
    $program $stream $label $source `[` $sourceOffset `]` `to` $target `[` $targetOffset `]` `bytes` $bytes
    (`awaits` $awaits^)? attr-dict `:` type($source) `to` type($target)
  }];
  let hasVerifier = 1;
}
def Schedule_PrefetchOp : Schedule_CopyOp<"prefetch", "Brings bytes from a host space to a device space.">;
def Schedule_OffloadOp : Schedule_CopyOp<"offload", "Brings bytes from a device space to a host space.">;

class Schedule_RunOp<string mnemonic, string text> : Schedule_Op<mnemonic, [DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = text;
  let description = [{
    Either `callee` names a layer template, whose arguments and then results the operands bind, the last operand being
    its workspace where it needs one; or `kernel` names a kernel of the catalogue, applied `groups` times to an equal
    share of the operands, whose types `types` lists, plus one more that is its workspace where it needs one. Operand i is the bytes of its slot from `offsets[i]`.
    `effects[i]` is 0 read, 1 write, 2 accumulate, 3 update. `parameters` is for updates and norms: which parameter of
    @main a group is for; `firsts`, of updates in parts: the first element of it that the group updates.
    `rankPlaces`, where ranks have what is theirs at different places: pairs by operand, so many bytes from each rank's to
    the next one's and at most so many from the first one's.
  }];
  let arguments = !con((ins Variadic<Schedule_Slot>:$operands, DenseI64ArrayAttr:$offsets, DenseI64ArrayAttr:$effects,
                            OptionalAttr<FlatSymbolRefAttr>:$callee, OptionalAttr<StrAttr>:$kernel,
                            OptionalAttr<TypeArrayAttr>:$types, DefaultValuedAttr<I64Attr, "1">:$groups,
                            OptionalAttr<DenseI64ArrayAttr>:$parameters, OptionalAttr<DenseI64ArrayAttr>:$firsts,
                            OptionalAttr<DictionaryAttr>:$settings, OptionalAttr<DenseI64ArrayAttr>:$rankPlaces),
                       CommandAttributes);
  let assemblyFormat = [{
    $program $stream $label ($callee^)? (`kernel` $kernel^)? `(` $operands `)` `offsets` $offsets `effects` $effects
    (`awaits` $awaits^)? attr-dict `:` type($operands)
  }];
  let hasVerifier = 1;
}
def Schedule_ComputeOp : Schedule_RunOp<"compute", "Runs a layer template, or kernels, on a stream.">;
def Schedule_UpdateOp : Schedule_RunOp<"update", "Runs the optimizer's kernels on the spans of parameters.">;
#endif
