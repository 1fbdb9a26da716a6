// Plans that are well-formed files but cannot be executed: each is refused with a message that says where.
#include "runtime/plan/PlanFile.h"
#include "tests/plan/LinearPlan.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

namespace mt::plan {
namespace {

constexpr uint64_t kHuge = std::numeric_limits<uint64_t>::max() - 7;

Program &step(Plan &plan) { return plan.programs[0]; }
/// By label; of the step.
Command &command(Plan &plan, const std::string &label) {
  for (Command &one : step(plan).commands)
    if (one.label == label)
      return one;
  ADD_FAILURE() << "no command " << label;
  return step(plan).commands[0];
}
Template &code(Plan &plan, const std::string &name) {
  for (Template &one : plan.templates)
    if (one.name == name)
      return one;
  ADD_FAILURE() << "no template " << name;
  return plan.templates[0];
}

/// The first parameter, as if its 30 elements were the codes of [6, 10] numbers.
Packing &packed(Plan &plan) {
  Parameter &parameter = plan.parameters[0];
  parameter.trainable = false, parameter.optimizer.clear();
  parameter.parts.resize(1);
  parameter.parts[0].type = DType::u8, parameter.parts[0].span.bytes = 30;
  return parameter.initial.packing.emplace(Packing{{6, 10}, 64, ""});
}

Parameter &frozen(Plan &plan) {
  Parameter &parameter = plan.parameters[0];
  parameter.trainable = false, parameter.optimizer.clear();
  parameter.parts.resize(1);
  return parameter;
}
Initial made(const Plan &) {
  Initial initial;
  initial.generator = "ones";
  return initial;
}

struct Damage {
  std::string name;
  std::function<void(Plan &)> apply;
  std::string message; ///< that the refusal must contain
  bool unified = false;
};
void PrintTo(const Damage &damage, std::ostream *stream) { *stream << damage.name; }

const std::vector<Damage> kDamages = {
    {"noSpaces", [](Plan &p) { p.spaces.clear(); }, "needs at least one of each"},
    {"hugeSpace", [](Plan &p) { p.spaces[0].bytes = kHuge; }, "space 0 \"device\": "},
    {"partOutside", [](Plan &p) { p.parameters[0].parts[0].span.offset = kHuge; },
     "parameter 0 \"weight\": weight: 120 bytes at"},
    {"nameOfOtherBytes", [](Plan &p) { p.parameters[0].name = "weight\xff"; }, "its name is not UTF-8 text"},
    {"partOfNoSpace", [](Plan &p) { p.parameters[0].parts[0].span.space = 9; },
     "space 9 does not exist, the plan has 3"},
    {"partOnDevice",
     [](Plan &p) {
       p.parameters[0].parts[0].span = {0, 0, 120};
     },
     "which the host cannot reach"},
    {"partTooShort", [](Plan &p) { p.parameters[0].parts[0].span.bytes = 116; }, "30 values of f32 need 120"},
    {"partUnaligned",
     [](Plan &p) {
       p.spaces[2].bytes += 8;
       p.parameters[0].parts[1].span.offset = 2;
     },
     "is no multiple of 4"},
    {"partsOverlap", [](Plan &p) { p.parameters[0].parts[1].span = p.parameters[0].parts[0].span; },
     "overlap in space 1"},
    {"unknownOptimizer", [](Plan &p) { p.parameters[0].optimizer = "adam"; },
     "its optimizer is \"adam\": must be adamw, sgd or lion"},
    {"partOfNone", [](Plan &p) { p.parameters[0].parts[1].name = "third_moment"; },
     "optimizer \"sgd\" keeps no such part"},
    {"partOfOtherType", [](Plan &p) { p.parameters[0].parts[1].type = DType::i32; },
     "it is of i32, one for 1 elements, and must be of f32, one for 1"},
    {"partMissing", [](Plan &p) { p.parameters[0].parts.pop_back(); },
     "it is trained with sgd and has no first_moment"},
    {"partOfNoElements", [](Plan &p) { p.parameters[0].parts[1].elements = 0; },
     "one value for 0 elements is not possible"},
    {"partTwice", [](Plan &p) { p.parameters[0].parts[1].name = kWeight; }, "weight appears twice"},
    {"aliasTwice", [](Plan &p) { p.parameters[0].aliases[1].name = "linear.weight"; },
     "both have the name \"linear.weight\""},
    {"aliasOfItself", [](Plan &p) { p.parameters[0].aliases[0].name = "weight"; }, "both have the name \"weight\""},
    {"aliasNoName", [](Plan &p) { p.parameters[0].aliases[0].name = ""; }, "alias \"\" is empty or not UTF-8"},
    {"aliasNoText", [](Plan &p) { p.parameters[0].aliases[0].name = "\xff"; }, "is empty or not UTF-8"},
    {"transposedVector", [](Plan &p) { p.parameters[0].dims = {30}; }, "is its transpose, and it has 1 dimensions"},
    {"noWeight", [](Plan &p) { p.parameters[0].parts.erase(p.parameters[0].parts.begin()); }, "it has no weight"},
    {"frozenWithMoment", [](Plan &p) { p.parameters[0].trainable = false; }, "must have a weight only"},
    {"trainableHalf",
     [](Plan &p) {
       p.parameters[0].parts[0].type = DType::f16;
       p.parameters[0].parts[0].span.bytes = 60;
     },
     "not f32 or bf16"},
    {"bf16WithoutRemainder",
     [](Plan &p) {
       p.parameters[0].parts[0].type = DType::bf16;
       p.parameters[0].parts[0].span.bytes = 60;
     },
     "has no remainder"},
    {"remainderOfWhole",
     [](Plan &p) {
       p.parameters[0].parts[1] = {std::string(kRemainder), DType::i16, p.parameters[0].parts[1].span};
       p.parameters[0].parts[1].span.bytes = 60;
     },
     "it has a remainder, but its weight is f32, not bf16"},
    {"remainderOfOtherType",
     [](Plan &p) {
       p.parameters[0].parts[1] = {std::string(kRemainder), DType::bf16, p.parameters[0].parts[1].span};
       p.parameters[0].parts[1].span.bytes = 60;
     },
     "a remainder must be i16, not bf16"},
    {"remainderTooLong",
     [](Plan &p) {
       p.parameters[0].parts[1] = {std::string(kRemainder), DType::i16, p.parameters[0].parts[1].span};
     },
     "30 values of i16 need 60"},
    {"dimsOverflow",
     [](Plan &p) {
       p.parameters[0].dims = {int64_t{1} << 40, int64_t{1} << 40};
     },
     "too many elements"},
    {"dimsNegative",
     [](Plan &p) {
       p.parameters[0].dims = {-6, -5};
     },
     "a dimension of -6 is not possible"},
    {"unknownGenerator", [](Plan &p) { p.parameters[0].initial.generator = "cauchy"; }, "unknown generator \"cauchy\""},
    {"packedAndTrained",
     [](Plan &p) {
       p.parameters[0].initial.packing = {{6, 5}, 64, ""};
     },
     "it is packed, and cannot be trainable"},
    {"packedInNoBlocks", [](Plan &p) { packed(p).block = 0; }, "[6, 10] in blocks of 0 cannot be packed"},
    {"packedOfNothing",
     [](Plan &p) {
       packed(p).dims = {6, 0};
     },
     "a dimension of 0 is not possible"},
    {"packedIntegers",
     [](Plan &p) {
       packed(p);
       p.parameters[0].initial.path = "/w.bin";
       p.parameters[0].initial.type = DType::i32;
     },
     "i32 in /w.bin cannot be packed: only floats can"},
    {"packedInOther",
     [](Plan &p) {
       packed(p).dims = {6, 12};
     },
     "30 of u8 do not hold the codes of [6, 12]"},
    {"scalesOfOther", [](Plan &p) { packed(p).codes = "v"; }, "30 of u8 do not hold the scales of [6, 10]"},
    {"packedRow",
     [](Plan &p) {
       packed(p).dims = {1, int64_t{1} << 40};
     },
     "in blocks of 64 cannot be packed"},
    {"scalesOfNothing",
     [](Plan &p) {
       packed(p).codes = "nothing";
       p.parameters[0].parts[0].type = DType::bf16, p.parameters[0].parts[0].span.bytes = 60;
       p.parameters[0].initial.packing->dims = {30, 10};
     },
     "it holds scales of \"nothing\", which holds no codes of the same numbers"},
    {"piecesTrained",
     [](Plan &p) {
       p.parameters[0].initial.pieces = {{"a", made(p)}, {"b", made(p)}};
     },
     "trained, it [6, 5] cannot be of 2 pieces"},
    {"piecesThatDoNotDivide",
     [](Plan &p) {
       frozen(p).initial.pieces = {{"a", made(p)}, {"b", made(p)}, {"c", made(p)}, {"d", made(p)}};
     },
     "it [6, 5] cannot be of 4 pieces"},
    {"piecesOfOddNumbers",
     [](Plan &p) {
       const Initial one = made(p);
       packed(p).dims = {6, 10}, packed(p) = {{2, 30}, 64, ""};
       packed(p) = {{60, 1}, 64, ""};
       p.parameters[0].initial.pieces.assign(60, {"a", one});
     },
     "pieces of 1 elements are packed in no whole bytes"},
    {"pieceOfNoGenerator",
     [](Plan &p) {
       Initial bad = made(p);
       bad.generator = "cauchy";
       frozen(p).initial.pieces = {{"a", made(p)}, {"b", bad}};
     },
     "piece \"b\": unknown generator \"cauchy\""},
    {"pieceThatIsShort",
     [](Plan &p) {
       Initial bad = made(p);
       bad.path = "/w.bin", bad.length = 8;
       frozen(p).initial.pieces = {{"a", made(p)}, {"b", bad}};
     },
     "piece \"b\": 8 bytes of /w.bin as f32 do not fill it: want 60"},
    {"adapterOfNothing",
     [](Plan &p) {
       p.adapters.push_back({0, 1, 99});
     },
     "adapter 0: it is of parameters 0, 1 and 99, and there are"},
    {"adapterThatDoesNotFit",
     [](Plan &p) {
       p.adapters.push_back({0, 0, 0});
     },
     "do not make up"},
    {"generatorNaN", [](Plan &p) { p.parameters[0].initial.deviation = NAN; }, "they must be finite"},
    {"fileTooShort",
     [](Plan &p) {
       p.parameters[0].initial.path = "/w.bin";
       p.parameters[0].initial.length = 100;
     },
     "100 bytes of /w.bin as f32 do not fill it: want 120"},
    {"inputRows", [](Plan &p) { p.inputs[0].dims[0] = 6; },
     "input 0 \"x\": dimension 0 must be a rank's share of the batch, 8"},
    {"ignoredLabel", [](Plan &p) { p.inputs[1].type = DType::u8; },
     "input 1 \"labels\": labels of type u8 cannot be -100, which is said not to count"},
    {"inputPart", [](Plan &p) { p.inputs[0].parts[1].bytes = 8; }, "part 1 has 8 bytes, want 96"},
    {"scalars", [](Plan &p) { p.inputs[2].type = DType::i64; },
     "scalars must be f64 [2, 16]: a row for the step and one for each parameter"},
    {"rowNumbers", [](Plan &p) { p.inputs[0].kind = InputKind::rows; },
     "input 0 \"x\": numbers of rows must be i64 [8]"},
    {"inputOnDevice", [](Plan &p) { p.inputs[0].parts[0].space = 0; },
     "part 0 lies in space 0, which the host cannot reach"},
    {"unknownKernel", [](Plan &p) { code(p, "train").calls[0].signature.kernel = "mat_mul"; },
     "template 1 \"train\": call 0: unknown kernel \"mat_mul\""},
    {"wrongDims",
     [](Plan &p) {
       code(p, "train").calls[0].signature.operands[0].dims = {4, 7};
     },
     "do not agree in the summed dimension"},
    {"operandOutsideArgument", [](Plan &p) { code(p, "train").calls[0].operands[0].offset = 4; },
     "matmul, operand 0: 96 bytes at 4 leave argument 0 of 96 bytes"},
    {"operandOutsideWorkspace", [](Plan &p) { code(p, "train").calls[0].operands[3].offset = kHuge; },
     "leave the workspace"},
    {"operandOfNoArgument", [](Plan &p) { code(p, "train").calls[0].operands[0].argument = 6; },
     "argument 6 does not exist, the template has 6"},
    {"operandUnaligned", [](Plan &p) { code(p, "train").calls[0].operands[3].offset = 2; },
     "its offset 2 is no multiple of 4"},
    {"scratchUnaligned",
     [](Plan &p) {
       for (Call &call : code(p, "train").calls)
         if (call.signature.operands.back().effect == kernels::Effect::scratch)
           call.operands.back().offset -= 8;
     },
     "is no multiple of 64"},
    {"writesWhatItReads",
     [](Plan &p) {
       for (Call &call : code(p, "train").calls)
         for (size_t i = 0; i < call.operands.size(); ++i)
           for (size_t j = i + 1; j < call.operands.size(); ++j)
             if (call.operands[i].argument == -1 && call.operands[j].argument == -1)
               call.operands[j].offset = call.operands[i].offset;
     },
     "overlap, and one is written"},
    {"writesReadOnly",
     [](Plan &p) {
       code(p, "train").calls[0].operands[3] = {1, 0};
     },
     "it writes argument 1, which the template only reads"},
    {"updatesWritten", [](Plan &p) { code(p, "update weight").arguments[3].effect = kernels::Effect::write; },
     "which the template does not declare as updated"},
    {"readIsWritten", [](Plan &p) { code(p, "train").calls[0].signature.operands[3].effect = kernels::Effect::read; },
     "has the wrong effect"},
    {"noSuchParameter",
     [](Plan &p) { code(p, "update weight").calls[0].signature.attributes["parameter"] = int64_t{1}; },
     "parameter 1 does not exist, the plan has 1"},
    {"partBeyondItsParameter",
     [](Plan &p) { code(p, "update weight").calls[0].signature.attributes["first"] = int64_t{1}; },
     "the gradient does not fit parameter 0"},
    {"partBeforeItsParameter",
     [](Plan &p) { code(p, "update weight").calls[0].signature.attributes["first"] = int64_t{-1}; },
     "attribute first must not be negative"},
    {"noSuchStream", [](Plan &p) { command(p, "report").stream = 4; },
     "\"report\": stream 4 does not exist, the plan has 4"},
    {"noSuchTemplate", [](Plan &p) { command(p, "report").templateIndex = 7; },
     "template 7 does not exist, the plan has 7"},
    {"tooFewArguments", [](Plan &p) { command(p, "report").arguments.pop_back(); },
     "it binds 1 arguments, template \"report\" has 2"},
    {"bindingBytes", [](Plan &p) { command(p, "compute train mb 0").arguments[2].span.bytes = 116; },
     "\"compute train mb 0\": argument 2: 116 bytes are bound, template \"train\" wants 120"},
    {"bindingOutside", [](Plan &p) { command(p, "compute train mb 0").arguments[2].span.offset = kHuge; },
     "argument 2: 120 bytes at 18446744073709551608 leave space 0 \"device\""},
    {"bindingUnaligned", [](Plan &p) { command(p, "compute train mb 0").arguments[2].span.offset += 2; },
     "argument 2: its offset 2 is no multiple of 4"},
    {"bindingEffect", [](Plan &p) { command(p, "compute train mb 0").arguments[0].effect = BindingEffect::write; },
     "argument 0: it is bound as write, template \"train\" declares it as read"},
    {"cannotAccumulate",
     [](Plan &p) {
       auto &b = command(p, "compute norm").arguments[1];
       b.effect = BindingEffect::accumulate;
       b.fresh = false;
     },
     "has a call that cannot add to it"},
    {"freshRead", [](Plan &p) { command(p, "report").arguments[0].fresh = true; },
     "argument 0: it is bound as fresh, but its effect is read"},
    {"computeOnHostBytes", [](Plan &p) { command(p, "compute train mb 1").arguments[3].span = p.inputs[2].parts[0]; },
     "argument 3: space 1 \"staging\" cannot be used on compute stream 0 \"compute\""},
    {"runOnUpload", [](Plan &p) { command(p, "compute norm").stream = 2; }, "cannot be used on upload stream 2"},
    {"unknownInstructions", [](Plan &p) { p.target.isa = "vax"; },
     "the target's instruction set is 'vax'; it must be one of sse4,"},
    {"scratchOfAnotherBackend",
     [](Plan &p) {
       p.target.device = "cuda"; // the CPU's matmul needs none
       code(p, "train").calls[0].signature.operands.back().dims = {1};
     },
     "template \"train\": matmul: scratch has 1 bytes, want"},
    {"scratchTooSmall", [](Plan &p) { code(p, "train").calls[1].signature.operands.back().dims = {1}; },
     "squared_error_grad: scratch has 1 bytes, want 8"},
    {"workspaceTooSmall", [](Plan &p) { command(p, "compute train mb 0").workspace.bytes = 64; },
     "workspace: it has 64 bytes, template \"train\" needs"},
    {"overlappingArguments",
     [](Plan &p) {
       auto &c = command(p, "compute train mb 0");
       c.arguments[5].span = c.arguments[2].span;
     },
     "arguments 2 and 5 overlap, and one of them is written"},
    {"copySizes", [](Plan &p) { command(p, "prefetch weight").to.bytes = 64; }, "it copies 120 bytes to a place of 64"},
    {"copyOntoItself", [](Plan &p) { command(p, "prefetch weight").to = command(p, "prefetch weight").from; },
     "overlap"},
    {"copyTheWrongWay",
     [](Plan &p) { std::swap(command(p, "prefetch weight").from, command(p, "prefetch weight").to); },
     "upload stream 2 \"upload\" of device 0 cannot copy from space 0 to space 1"},
    {"feedElsewhere",
     [](Plan &p) {
       auto &c = command(p, "feed");
       std::swap(c.arguments[0].span, c.arguments[1].span);
     },
     "feed: operand 0 is not part 0 of the plan's inputs"},
    {"feedOnCompute", [](Plan &p) { command(p, "feed").stream = 0; }, "feeds or reports and must run on a host stream",
     true},
    {"awaitsLater",
     [](Plan &p) {
       command(p, "feed").awaits = {{5, 0}};
     },
     "step command 0 \"feed\": it awaits command 5, which is not before it"},
    {"awaitsItself",
     [](Plan &p) {
       command(p, "feed").awaits = {{0, 0}};
     },
     "it awaits command 0, which is not before it"},
    {"awaitsTwoBack",
     [](Plan &p) {
       command(p, "feed").awaits = {{0, 2}};
     },
     "it awaits a command 2 iterations back"},
    {"evaluateAwaitsBack",
     [](Plan &p) {
       p.programs[2].commands[3].awaits = {{0, 1}};
     },
     "which program evaluate cannot"},
    {"ranksThatDoNotShare", [](Plan &p) { p.ranks = 3; }, "3 ranks cannot share a batch of 8"},
    {"inputsOfAnotherShare", [](Plan &p) { p.ranks = 2; }, "must be a rank's share of the batch, 4"},
    {"twoNetworks",
     [](Plan &p) {
       p.streams.insert(p.streams.end(), 2, {.kind = StreamKind::network, .device = 0, .name = "network"});
     },
     "there are two network streams \"network\": ranks that carry out exchanges in different orders wait for each "
     "other"},
    {"twoNetworksOfADevice",
     [](Plan &p) {
       for (uint32_t device : {0U, 1U, 1U})
         p.streams.push_back({.kind = StreamKind::deviceNetwork, .device = device, .name = "device network"});
     },
     "there are two device_network streams \"device network\""},
    {"aDevicesNetworkOnTheHost",
     [](Plan &p) {
       p.streams.push_back({.kind = StreamKind::deviceNetwork, .device = 0, .name = "device network"});
       command(p, "report").stream = static_cast<uint32_t>(p.streams.size() - 1);
     },
     "cannot be used on device_network stream"},
    {"noExchangeOnANetwork",
     [](Plan &p) {
       p.streams.push_back({.kind = StreamKind::network, .device = 0, .name = "network"});
       command(p, "report").stream = static_cast<uint32_t>(p.streams.size() - 1);
     },
     "template \"report\" has 0 exchanges with other ranks among 1 calls: they alone run on network streams"},
    {"rankStepsBeyondTheirReach", [](Plan &p) { command(p, "report").arguments[0].rankStride = 64; },
     "64 bytes from rank to rank, at most 0, are not possible"},
    {"rankPlacesUnaligned",
     [](Plan &p) { command(p, "report").arguments[1].rankStride = command(p, "report").arguments[1].rankReach = 4; },
     "4 bytes from rank to rank, at most 4, are no multiples of 8"},
    {"rankPlacesOutside",
     [](Plan &p) {
       Binding &b = command(p, "report").arguments[0];
       b.rankStride = b.rankReach = p.spaces[b.span.space].bytes;
     },
     "leave space 1 \"staging\""},
    {"contentionNotANumber", [](Plan &p) { p.target.contention[0][3] = std::nan(""); },
     "slow each other down nan times"},
    {"negativeTime", [](Plan &p) { command(p, "feed").predictedSeconds = -1; }, "it is predicted to take -1 seconds"},
    {"twoSteps", [](Plan &p) { p.programs[1].kind = ProgramKind::step; }, "there are two programs step"},
    {"missingAwait", [](Plan &p) { command(p, "offload gradient").awaits.clear(); },
     "(offload gradient) is not ordered after command"},
    {"missingAwaitAcrossSteps",
     [](Plan &p) {
       for (auto &c : step(p).commands)
         std::erase_if(c.awaits, [](const Await &a) { return a.back == 1; });
     },
     "of the iteration before"},
};

class DamagedPlan : public testing::TestWithParam<Damage> {};

TEST_P(DamagedPlan, IsRefusedWithPlaceAndRemedy) {
  Plan plan = tests::linearPlan(GetParam().unified);
  GetParam().apply(plan);
  Result<Plan> loaded = deserialize(serialize(plan), "plan.bin");
  ASSERT_FALSE(loaded.ok());
  const std::string &message = loaded.status().message();
  EXPECT_EQ(message.find("plan.bin: "), 0u) << message;
  EXPECT_NE(message.find(GetParam().message), std::string::npos) << message;
  EXPECT_NE(message.find("; recompile the model with this version of mtc"), std::string::npos) << message;
}
INSTANTIATE_TEST_SUITE_P(All, DamagedPlan, testing::ValuesIn(kDamages),
                         [](const auto &info) { return info.param.name; });

} // namespace
} // namespace mt::plan
