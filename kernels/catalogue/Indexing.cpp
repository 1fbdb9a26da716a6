// Kernels that pick elements by computed indices, and their gradients. Indices out of range are an error of the run.
#include "kernels/Blocks.h"
#include "kernels/catalogue/Checker.h"
#include "kernels/catalogue/Entry.h"

namespace mt::kernels {
namespace {

using Kind = AttributeSpec::Kind;

bool isAxis(const Signature &call, size_t operand) {
  int64_t axis = call.integer("axis");
  return axis >= 0 && axis < static_cast<int64_t>(call.operands[operand].dims.size());
}

/// `data` with dimension `axis` replaced by `indices`.
Dims replaced(const Dims &data, int64_t axis, const Dims &indices) {
  Dims dims(data.begin(), data.begin() + axis);
  dims.insert(dims.end(), indices.begin(), indices.end());
  dims.insert(dims.end(), data.begin() + axis + 1, data.end());
  return dims;
}

std::string checkGather(const Signature &call) {
  if (!isAxis(call, 0))
    return "attribute axis is no dimension of the data";
  Dims wanted = replaced(call.operands[0].dims, call.integer("axis"), call.operands[1].dims);
  return Checker(call).integral(1).sameType(2, 0).dims(2, wanted).result();
}

std::string checkGatherGrad(const Signature &call) {
  if (!call.operands[2].present || !isAxis(call, 2))
    return "attribute axis is no dimension of the result";
  Dims wanted = replaced(call.operands[2].dims, call.integer("axis"), call.operands[0].dims);
  return Checker(call).integral(0).floating(1).dims(1, wanted).sameTypeOrF32(2, 1).result();
}

std::string checkGatherNd(const Signature &call) {
  const Dims &data = call.operands[0].dims, &indices = call.operands[1].dims;
  int64_t batch = call.integer("batchDims");
  if (indices.empty() || batch < 0 || batch >= static_cast<int64_t>(indices.size()) ||
      batch > static_cast<int64_t>(data.size()))
    return "attribute batchDims does not fit the operands";
  if (!std::equal(data.begin(), data.begin() + batch, indices.begin()))
    return "the first batchDims dimensions of data and indices must agree";
  if (indices.back() + batch > static_cast<int64_t>(data.size()))
    return "the index tuples are longer than the data has dimensions";
  Dims wanted(indices.begin(), indices.end() - 1);
  wanted.insert(wanted.end(), data.begin() + batch + indices.back(), data.end());
  return Checker(call).integral(1).sameType(2, 0).dims(2, wanted).result();
}

std::string checkGatherElements(const Signature &call) {
  const Dims &data = call.operands[0].dims, &indices = call.operands[1].dims;
  if (!isAxis(call, 0) || data.size() != indices.size())
    return "attribute axis is no dimension of the data, or the indices have another number of dimensions";
  for (size_t i = 0; i < data.size(); ++i)
    if (static_cast<int64_t>(i) != call.integer("axis") && indices[i] > data[i])
      return fmt::format("the indices exceed the data in dimension {}", i);
  return Checker(call).integral(1).sameType(2, 0).dims(2, indices).result();
}

std::string checkScatter(const Signature &call) {
  if (!isAxis(call, 0))
    return "attribute axis is no dimension of the data";
  Dims wanted = replaced(call.operands[0].dims, call.integer("axis"), call.operands[1].dims);
  return Checker(call).integral(1).sameType(2, 0).dims(2, wanted).like(3, 0).result();
}

std::string checkScatterElements(const Signature &call) {
  const Dims &data = call.operands[0].dims, &indices = call.operands[1].dims;
  if (!isAxis(call, 0) || data.size() != indices.size())
    return "attribute axis is no dimension of the data, or the indices have another number of dimensions";
  for (size_t i = 0; i < data.size(); ++i)
    if (static_cast<int64_t>(i) != call.integer("axis") && indices[i] > data[i])
      return fmt::format("the indices exceed the data in dimension {}", i);
  return Checker(call).integral(1).sameType(2, 0).sameDims(2, 1).like(3, 0).result();
}

std::string checkTopK(const Signature &call) {
  Dims wanted = call.operands[0].dims;
  int64_t k = call.integer("k");
  if (wanted.empty() || k < 1 || k > wanted.back())
    return "attribute k must be 1 to the size of the last dimension";
  wanted.back() = k;
  return Checker(call).type(1, DType::i64).dims(1, wanted).result();
}

std::string checkEmbedding(const Signature &call) {
  Checker checker(call);
  checker.floating(0).rank(0, 2).integral(1).then([&](Checker &c) {
    Dims wanted = call.operands[1].dims;
    wanted.push_back(call.operands[0].dims[1]);
    c.sameType(2, 0).dims(2, wanted);
  });
  return checker.result();
}

std::string checkEmbeddingGrad(const Signature &call) {
  Checker checker(call);
  checker.require(call.operands[2].present, "the result is missing")
      .rank(2, 2)
      .integral(0)
      .floating(1)
      .sameTypeOrF32(2, 1)
      .then([&](Checker &c) {
        Dims wanted = call.operands[0].dims;
        wanted.push_back(call.operands[2].dims[1]);
        c.dims(1, wanted);
      });
  return checker.result();
}

double resultTwice(const Signature &call) { return 2.0 * static_cast<double>(call.operands.back().bytes()); }
uint64_t placesWorkspace(const Signature &call) {
  return sizeof(int64_t) * static_cast<uint64_t>(call.operands[0].elements());
}
uint64_t cudaSortWorkspace(const Signature &call) { return sortScratch(call.operands[0].elements()); }
uint64_t cudaScatterWorkspace(const Signature &call) { return sortScratch(call.operands[1].elements()); }
double topKFlops(const Signature &call) { return static_cast<double>(call.operands[0].elements()); }
double updateFlops(const Signature &call) { return static_cast<double>(call.operands[2].elements()); }
double gradientFlops(const Signature &call) { return static_cast<double>(call.operands[1].elements()); }

constexpr AttributeSpec kAxis[] = {{"axis", Kind::integer, true, "", "the dimension"}};
constexpr AttributeSpec kPadding[] = {
    {"padding", Kind::integer, false, "", "the id whose row gets no gradient; of its gradient only"}};
constexpr AttributeSpec kScatter[] = {
    {"axis", Kind::integer, true, "", "the dimension"},
    {"kind", Kind::choice, false, "none|add|mul|max|min", "what an update does with what is there; none replaces it"}};
constexpr AttributeSpec kTopK[] = {{"k", Kind::integer, true, "", "how many"},
                                   {"largest", Kind::flag, false, "", "the largest; default: the smallest"}};
constexpr AttributeSpec kBatch[] = {
    {"batchDims", Kind::integer, false, "", "leading dimensions that run together; default 0"}};

} // namespace

std::span<const Kernel> indexingKernels() {
  static const std::vector<Kernel> kernels = {
      entry("gather", "data indices -> result+", "ONNX Gather; negative indices count from the end.",
            "result[a, i, b] = data[a, indices[i], b] around axis", noFlops, checkGather,
            {.attributes = kAxis, .traffic = resultTwice}),
      entry("gather_grad", "indices gradient -> result+", "Gradient of gather for its data, summed in index order.",
            "result[a, indices[i], b] += gradient[a, i, b], from zero. Types: result the gradient's or f32; summed in "
            "f32 and rounded once",
            gradientFlops, checkGatherGrad,
            {.attributes = kAxis, .workspace = placesWorkspace, .cudaWorkspace = cudaSortWorkspace}),
      entry("gather_nd", "data indices -> result+", "ONNX GatherND; negative indices count from the end.",
            "result[b, i, ..] = data[b, indices[b, i, :], ..]", noFlops, checkGatherNd,
            {.attributes = kBatch, .traffic = resultTwice}),
      entry("gather_elements", "data indices -> result+", "ONNX GatherElements; negative indices count from the end.",
            "result[i][j] = data[i][indices[i][j]] for axis 1", noFlops, checkGatherElements,
            {.attributes = kAxis, .traffic = resultTwice}),
      entry("scatter", "data indices updates -> result", "Entries put into data at indices, in their order.",
            "result = data; then result[a, indices[i], b] = kind(result[a, indices[i], b], updates[a, i, b]) around "
            "axis for "
            "each i in order",
            updateFlops, checkScatter, {.attributes = kScatter, .cudaWorkspace = cudaScatterWorkspace}),
      entry("scatter_elements", "data indices updates -> result", "ONNX ScatterElements, in the order of the indices.",
            "result = data; then result[i][indices[i][j]] = kind(result[i][indices[i][j]], updates[i][j]) for axis 1, "
            "for each j "
            "in order",
            updateFlops, checkScatterElements, {.attributes = kScatter}),
      entry("top_k", "operand -> result", "Places of the largest or smallest elements along the last dimension.",
            "the places of k elements in descending (or ascending) order, equal ones in that of their places; NaN "
            "comes first",
            topKFlops, checkTopK, {.attributes = kTopK}),
      entry("embedding", "table ids -> result+", "Rows of a table.", "result[i, :] = table[ids[i], :]", noFlops,
            checkEmbedding, {.attributes = kPadding, .traffic = resultTwice}),
      entry("embedding_grad", "ids gradient -> result+", "Gradient of the table, summed in the order of the ids.",
            "result[ids[i], :] += gradient[i, :], from zero. Types: result the gradient's or f32; summed in f32 and "
            "rounded once",
            gradientFlops, checkEmbeddingGrad, {.workspace = placesWorkspace, .cudaWorkspace = cudaSortWorkspace})};
  return kernels;
}

} // namespace mt::kernels
