// Kernels that move, repeat, pick or reduce elements by position.
#include "kernels/Quantized.h"
#include "kernels/catalogue/Checker.h"
#include "kernels/catalogue/Entry.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace mt::kernels {
namespace {

using Kind = AttributeSpec::Kind;

int64_t rankOf(const Signature &call, size_t operand) {
  return static_cast<int64_t>(call.operands[operand].dims.size());
}

bool inRange(int64_t value, int64_t low, int64_t end) { return value >= low && value < end; }

size_t valueCount(const Signature &call) {
  const Attribute &value = call.attributes.find("value")->second;
  if (auto list = std::get_if<std::vector<int64_t>>(&value))
    return list->size();
  if (auto list = std::get_if<std::vector<double>>(&value))
    return list->size();
  return 1;
}

std::string checkConstant(const Signature &call) {
  size_t count = valueCount(call);
  return Checker(call)
      .require(count == 1 || static_cast<int64_t>(count) == call.operands[0].elements(),
               "attribute value must have one number, or one for each element")
      .result();
}

std::string checkIota(const Signature &call) {
  return Checker(call)
      .require(inRange(call.integer("dimension"), 0, rankOf(call, 0)),
               "attribute dimension is no dimension of the result")
      .result();
}

std::string checkCast(const Signature &call) { return Checker(call).sameDims(1, 0).result(); }

std::string checkCopy(const Signature &call) {
  return Checker(call)
      .require(call.operands[0].elements() == call.operands[1].elements(), "both operands must have as many elements")
      .result();
}

std::string checkTranspose(const Signature &call) {
  const Dims &dims = call.operands[0].dims;
  std::vector<int64_t> permutation = call.integers("permutation"), sorted = permutation;
  std::ranges::sort(sorted);
  Dims places(dims.size());
  std::iota(places.begin(), places.end(), 0);
  if (sorted != places)
    return "attribute permutation must name every dimension once";
  Dims wanted;
  for (int64_t from : permutation)
    wanted.push_back(dims[static_cast<size_t>(from)]);
  return Checker(call).sameType(1, 0).dims(1, wanted).result();
}

std::string checkBroadcastTo(const Signature &call) {
  std::optional<Dims> both = broadcast(call.operands[0].dims, call.operands[1].dims);
  return Checker(call)
      .sameType(1, 0)
      .require(both && *both == call.operands[1].dims, "the operand does not broadcast to the result's dimensions")
      .result();
}

std::string checkSlice(const Signature &call) {
  const Dims &dims = call.operands[0].dims;
  Dims starts = call.integers("starts"), sizes = call.integers("sizes"), strides = call.integers("strides");
  if (starts.size() != dims.size() || sizes.size() != dims.size() || strides.size() != dims.size())
    return "attributes starts, sizes and strides must have one entry a dimension";
  for (size_t i = 0; i < dims.size(); ++i) {
    int64_t last = 0;
    if (sizes[i] < 1 || !inRange(starts[i], 0, dims[i]) || __builtin_mul_overflow(sizes[i] - 1, strides[i], &last) ||
        __builtin_add_overflow(last, starts[i], &last) || !inRange(last, 0, dims[i]))
      return fmt::format("the slice leaves dimension {} of {}", i, text(dims));
  }
  return Checker(call).sameType(1, 0).dims(1, sizes).result();
}

std::string checkPad(const Signature &call) {
  const Dims &dims = call.operands[0].dims;
  Dims low = call.integers("low"), high = call.integers("high"), interior = call.integers("interior");
  if (low.size() != dims.size() || high.size() != dims.size() || interior.size() != dims.size())
    return "attributes low, high and interior must have one entry a dimension";
  Dims wanted(dims.size());
  constexpr int64_t kMost = int64_t{1} << 48;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (!inRange(low[i], 0, kMost) || !inRange(high[i], 0, kMost) || !inRange(interior[i], 0, kMost) ||
        __builtin_mul_overflow(dims[i] - 1, interior[i], &wanted[i]) || wanted[i] > kMost)
      return fmt::format("the padding of dimension {} is negative or too large", i);
    wanted[i] += low[i] + high[i] + dims[i];
  }
  return Checker(call).sameType(1, 0).dims(1, wanted).result();
}

std::string checkConcat(const Signature &call) {
  Checker checker(call);
  int result = static_cast<int>(call.operands.size()) - 1;
  int64_t axis = call.integer("axis");
  if (!inRange(axis, 0, rankOf(call, 0)))
    return "attribute axis is no dimension of the inputs";
  Dims wanted = call.operands[0].dims;
  size_t at = static_cast<size_t>(axis);
  for (int i = 1; i < result; ++i) {
    Dims same = checker.at(i).dims;
    checker.sameType(i, 0).rank(i, wanted.size());
    if (!checker.ok())
      break;
    wanted[at] += same[at];
    same[at] = call.operands[0].dims[at];
    checker.require(same == call.operands[0].dims, "the inputs must agree in every dimension but the axis");
  }
  return checker.sameType(result, 0).dims(result, wanted).result();
}

std::string checkReduce(const Signature &call) {
  std::vector<int64_t> axes = call.integers("axes");
  Dims wanted;
  bool additive = call.operands[0].type == DType::bf16 && (call.text("kind") == "sum" || call.text("kind") == "mean");
  bool ascending = std::ranges::adjacent_find(axes, std::greater_equal<>{}) == axes.end();
  for (int64_t axis : axes)
    if (!inRange(axis, 0, rankOf(call, 0)) || !ascending)
      return "attribute axes must name dimensions of the operand in ascending order";
  for (int64_t i = 0; i < rankOf(call, 0); ++i)
    if (!std::ranges::binary_search(axes, i))
      wanted.push_back(call.operands[0].dims[static_cast<size_t>(i)]);
    else if (call.integer("keepDims"))
      wanted.push_back(1);
  return Checker(call)
      .require(call.operands[0].type != DType::boolean, "booleans have no arithmetic")
      .also(additive ? Checker(call).sameTypeOrF32(1, 0).result() : Checker(call).sameType(1, 0).result())
      .dims(1, wanted)
      .result();
}

std::string checkCumsum(const Signature &call) {
  return Checker(call)
      .require(call.operands[0].type != DType::boolean, "booleans have no arithmetic")
      .require(inRange(call.integer("axis"), 0, rankOf(call, 0)), "attribute axis is no dimension of the operand")
      .like(1, 0)
      .result();
}

std::string checkDequantize(const Signature &call) {
  int64_t bits = call.integer("bits");
  if (bits != 2 && bits != 4 && bits != 8)
    return "attribute bits must be 2, 4 or 8";
  DType stored = call.operands[0].type;
  auto isReal = [&](size_t operand) {
    const OperandType &type = call.operands[operand];
    return !type.present || (isFloat(type.type) && type.type != DType::f64);
  };
  const std::vector<double> levels = call.reals("levels");
  auto quantized = quantizedOf(call);
  return Checker(call)
      .require(stored == DType::u8 || stored == DType::i8, "the values must be bytes")
      .require(isReal(1) && isReal(2) && isReal(3), "scales, zeros and result must be floats of at most 32 bits")
      .require(levels.empty() || (levels.size() == size_t(1) << bits && bits <= 4), "there must be a level for each value of 2 or 4 bits")
      .require(levels.empty() || (!call.operands[2].present && !call.integer("isSigned") && !call.integer("zero")),
               "values with levels have no sign and no zero")
      .require(std::ranges::all_of(levels, [](double level) { return std::isfinite(level); }), "the levels must be finite")
      .require(quantized.has_value(), "the scales must be one, one for each block along axis, or one for each block of "
                                      "every line along it")
      .require(!quantized || call.operands[0].elements() == quantized->bytes(),
               "the values must be as many bytes as the result needs")
      .sameDims(2, 1)
      .result();
}

double flopsPerOperand(const Signature &call) { return static_cast<double>(call.operands[0].elements()); }

/// What every chunk of every result comes to, in 64 bits.
uint64_t cudaReduceWorkspace(const Signature &call) {
  const int64_t results = Kept::of(call.operands[0].dims, call.integers("axes")).results;
  const int64_t chunks = reduceChunks(results, call.operands[0].elements() / results).count;
  return chunks > 1 ? static_cast<uint64_t>(results * chunks) * sizeof(double) : 0;
}
uint64_t reduceWorkspace(const Signature &call) {
  return reducePartBytes(call.operands[0].dims, call.integers("axes"));
}

double resultTwice(const Signature &call) { return 2.0 * static_cast<double>(call.operands.back().bytes()); }

constexpr AttributeSpec kConstant[] = {
    {"value", Kind::values, true, "", "one number for all elements, or one for each in row-major order"}};
constexpr AttributeSpec kIota[] = {{"dimension", Kind::integer, true, "", "along which the values grow"},
                                   {"start", Kind::real, false, "", "the first value; default 0"},
                                   {"step", Kind::real, false, "", "from one to the next; default 1"}};
constexpr AttributeSpec kTranspose[] = {
    {"permutation", Kind::integers, true, "", "operand dimension of each of the result"}};
constexpr AttributeSpec kSlice[] = {{"starts", Kind::integers, true, "", "first index"},
                                    {"sizes", Kind::integers, true, "", "number of elements"},
                                    {"strides", Kind::integers, true, "", "distance, may be negative"}};
constexpr AttributeSpec kPad[] = {{"low", Kind::integers, true, "", "elements before"},
                                  {"high", Kind::integers, true, "", "elements after"},
                                  {"interior", Kind::integers, true, "", "elements between"},
                                  {"value", Kind::real, false, "", "what is put there; default 0"}};
constexpr AttributeSpec kDequantize[] = {
    {"bits", Kind::integer, true, "", "of a value: 2, 4 or 8; a byte holds those of its lowest bits first"},
    {"isSigned", Kind::flag, false, "", "values in two's complement"},
    {"zero", Kind::integer, false, "", "the value that stands for 0 where no operand tells; default 0"},
    {"axis", Kind::integer, false, "", "the dimension of the result along which scales differ"},
    {"block", Kind::integer, false, "", "entries along it that share one; default 1"},
    {"levels", Kind::values, false, "", "2^bits reals, of at most 4 bits: what values stand for; then no sign and no zero"}};
constexpr AttributeSpec kAxis[] = {{"axis", Kind::integer, true, "", "the dimension"}};
constexpr AttributeSpec kReduce[] = {
    {"kind", Kind::choice, true, "sum|mean|max|min|prod", "what is computed"},
    {"axes", Kind::integers, true, "", "dimensions to reduce, ascending"},
    {"keepDims", Kind::flag, true, "", "reduced dimensions stay as ones"},
    {"first", Kind::flag, false, "",
     "of equal elements the first has the gradient, else they share it; of its gradient only"}};
constexpr AttributeSpec kCumsum[] = {{"axis", Kind::integer, true, "", "the dimension"},
                                     {"exclusive", Kind::flag, false, "", "without the element itself"},
                                     {"reverse", Kind::flag, false, "", "from the end"}};

} // namespace

std::span<const Kernel> structureKernels() {
  static const std::vector<Kernel> kernels = {
      entry("constant", "-> result+", "A constant.", "value", noFlops, checkConstant, {.attributes = kConstant}),
      entry("iota", "-> result+", "Numbers in arithmetic progression along one dimension.", "start + step * index",
            noFlops, checkIota, {.attributes = kIota}),
      entry("cast", "operand -> result+", "Another element type.",
            "x; floats to integers truncate, anything non-zero is true", noFlops, checkCast),
      entry("dequantize", "values scales zeros? -> result", "Packed whole numbers as reals.",
            "(value - zero) * scale, or levels[value] * scale, in f32", flopsPerResult, checkDequantize,
            {.attributes = kDequantize}),
      entry("copy", "x -> y+", "The same elements, converted if the types differ.", "y = x", noFlops, checkCopy),
      entry("transpose", "operand -> result+", "Dimensions in another order.",
            "dimension i of the result is dimension permutation[i] of the operand", noFlops, checkTranspose,
            {.attributes = kTranspose}),
      entry("broadcast", "operand -> result+", "Repeats dimensions of size one and adds leading ones.",
            "as NumPy's broadcast_to", noFlops, checkBroadcastTo),
      entry("slice", "operand -> result+", "A strided part.", "result[i] = operand[starts + i * strides]", noFlops,
            checkSlice, {.attributes = kSlice, .traffic = resultTwice}),
      entry("pad", "operand -> result+", "A value around and between the elements.",
            "result[low + i * (interior + 1)] = operand[i], value elsewhere", noFlops, checkPad, {.attributes = kPad}),
      entry("concat", "inputs* -> result+", "One after another along an axis.", "concatenation", noFlops, checkConcat,
            {.attributes = kAxis}),
      entry("reduce", "operand -> result+", "Sum, mean, maximum, minimum or product over axes.",
            "kind over axes; floats in 64 bits. Types: sum and mean of bf16 may be f32", flopsPerOperand, checkReduce,
            {.attributes = kReduce, .workspace = reduceWorkspace, .cudaWorkspace = cudaReduceWorkspace}),
      entry("cumsum", "operand -> result+", "Running sum.", "sum of the elements up to this one along axis",
            flopsPerOperand, checkCumsum, {.attributes = kCumsum})};
  return kernels;
}

} // namespace mt::kernels
