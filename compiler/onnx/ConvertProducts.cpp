// Matrix products: MatMul, Gemm, Einsum; determinants.
#include "compiler/onnx/Converters.h"
#include "compiler/onnx/ProductParts.h"

#include <cstring>
#include <numeric>

using namespace mlir;

namespace mt::onnx {

Value plainMatmul(NodeContext &node, Value lhs, Value rhs, Value bias, bool transposeLhs, bool transposeRhs) {
  return node.emit<nn::MatmulOp>({lhs, rhs, bias ? Operand(bias) : Operand::absent()},
                                 {node.boolAttr("transposeLhs", transposeLhs), node.boolAttr("transposeRhs", transposeRhs)});
}

Value matmulOf(NodeContext &node, Value lhs, Value rhs) {
  if (!lhs || !rhs)
    return {};
  SmallVector<int64_t> left(nn::shapeOf(lhs)), right(nn::shapeOf(rhs));
  if (left.empty() || right.empty()) {
    (void)node.fail("multiplies a scalar as a matrix");
    return {};
  }
  bool row = left.size() == 1, column = right.size() == 1;
  if (row)
    left.insert(left.begin(), 1);
  if (column)
    right.push_back(1);
  Dims leftBatch(left.begin(), left.end() - 2), rightBatch(right.begin(), right.end() - 2);
  std::optional<Dims> batch = broadcastDims(leftBatch, rightBatch);
  if (!batch) {
    (void)node.fail("the batch dimensions {} and {} do not broadcast", dimsText(leftBatch), dimsText(rightBatch));
    return {};
  }
  auto withBatch = [](const Dims &dims, ArrayRef<int64_t> matrix) {
    SmallVector<int64_t> shape(dims.begin(), dims.end());
    shape.append(matrix.end() - 2, matrix.end());
    return shape;
  };
  lhs = node.reshape(lhs, left);
  rhs = node.reshape(rhs, right);
  // A right side without a batch of its own serves every matrix of the left.
  bool shared = llvm::all_of(rightBatch, [](int64_t size) { return size == 1; });
  if (shared) {
    rhs = node.reshape(rhs, withBatch({}, right));
  } else if (leftBatch != *batch || rightBatch != *batch) {
    SmallVector<int64_t> wideLeft = withBatch(*batch, left), wideRight = withBatch(*batch, right);
    lhs = node.broadcast(lhs, wideLeft);
    rhs = node.broadcast(rhs, wideRight);
  }
  Value product = plainMatmul(node, lhs, rhs);
  SmallVector<int64_t> shape(batch->begin(), batch->end());
  if (!row)
    shape.push_back(left[left.size() - 2]);
  if (!column)
    shape.push_back(right.back());
  return node.reshape(product, shape);
}

namespace {

LogicalResult matmul(NodeContext &node) { return node.result(matmulOf(node, node.input(0), node.input(1))); }

// alpha * A' B' + beta * C. A row of biases goes into the product.
LogicalResult gemm(NodeContext &node) {
  Value a = node.input(0), b = node.input(1);
  if (!a || !b)
    return failure();
  if (nn::shapeOf(a).size() != 2 || nn::shapeOf(b).size() != 2)
    return node.fail("its factors must have rank two");
  bool transposeA = node.attributes.integer("transA", 0), transposeB = node.attributes.integer("transB", 0);
  double alpha = node.attributes.real("alpha", 1), beta = node.attributes.real("beta", 1);
  Value bias = node.has(2) && beta != 0 ? node.input(2) : Value();
  if (node.has(2) && beta != 0 && !bias)
    return failure();
  int64_t columns = nn::shapeOf(b)[transposeB ? 0 : 1];
  bool rowBias = bias && alpha == 1 && beta == 1 && nn::shapeOf(bias).size() <= 2 && !nn::shapeOf(bias).empty() &&
                 nn::shapeOf(bias).back() == columns && elementCount(Dims(nn::shapeOf(bias))) == columns;
  Value product = plainMatmul(node, a, b, rowBias ? node.reshape(bias, {columns}) : Value(), transposeA, transposeB);
  if (alpha != 1)
    product = node.mul(product, node.scalar(product, alpha));
  if (bias && !rowBias)
    product = node.add(product, beta == 1 ? bias : node.mul(bias, node.scalar(bias, beta)));
  return node.result(product);
}

//===-- Einsum ------------------------------------------------------------------------------------------------===//

// A tensor whose dimensions have labels; the letters of the equation, and digits for those behind an ellipsis.
struct Labelled {
  Value value;
  std::string labels;
};

bool contains(const std::string &labels, char label) { return labels.find(label) != std::string::npos; }

// Replaces "..." by as many digit labels as the rank leaves over, counted from the right.
std::optional<std::string> expandEllipsis(const std::string &labels, size_t rank) {
  size_t at = labels.find("...");
  if (at == std::string::npos)
    return labels.size() == rank ? std::optional<std::string>(labels) : std::nullopt;
  size_t named = labels.size() - 3;
  if (named > rank || rank - named > 9)
    return std::nullopt;
  std::string digits;
  for (size_t i = rank - named; i > 0; --i)
    digits.push_back(static_cast<char>('0' + i));
  return labels.substr(0, at) + digits + labels.substr(at + 3);
}

Labelled permuted(NodeContext &node, const Labelled &tensor, const std::string &order) {
  Dims permutation;
  for (char label : order)
    permutation.push_back(static_cast<int64_t>(tensor.labels.find(label)));
  Value value = order == tensor.labels ? tensor.value : node.transpose(tensor.value, permutation);
  return {value, order};
}

// A label that occurs twice means the diagonal: with both dimensions last and as one, every (size + 1)-th element.
Labelled diagonal(NodeContext &node, Labelled tensor) {
  for (size_t first = 0; tensor.value && first < tensor.labels.size(); ++first) {
    char label = tensor.labels[first];
    size_t second = tensor.labels.find(label, first + 1);
    if (second == std::string::npos)
      continue;
    Dims order, shape;
    std::string kept;
    for (size_t d = 0; d < tensor.labels.size(); ++d)
      if (d != first && d != second) {
        order.push_back(static_cast<int64_t>(d));
        shape.push_back(nn::shapeOf(tensor.value)[d]);
        kept.push_back(tensor.labels[d]);
      }
    order.insert(order.end(), {static_cast<int64_t>(first), static_cast<int64_t>(second)});
    int64_t size = nn::shapeOf(tensor.value)[first];
    if (nn::shapeOf(tensor.value)[second] != size) {
      (void)node.fail("dimensions of the same label differ in size");
      return {};
    }
    shape.push_back(size * size);
    Value row = node.reshape(node.transpose(tensor.value, order), shape);
    tensor = diagonal(node, {node.slice(row, static_cast<int64_t>(shape.size()) - 1, 0, size, size + 1), kept + label});
    break;
  }
  return tensor;
}

// Sums out the labels that nothing else needs.
Labelled reduced(NodeContext &node, const Labelled &tensor, const std::string &needed) {
  Dims axes;
  std::string kept;
  for (size_t d = 0; d < tensor.labels.size(); ++d) {
    if (contains(needed, tensor.labels[d]))
      kept.push_back(tensor.labels[d]);
    else
      axes.push_back(static_cast<int64_t>(d));
  }
  return {axes.empty() ? tensor.value : node.reduce(tensor.value, "sum", axes, false), kept};
}

// The product of two tensors over the labels they share and `needed` lacks: [batch, m, k] x [batch, k, n].
Labelled contracted(NodeContext &node, Labelled a, Labelled b, const std::string &needed) {
  a = reduced(node, a, b.labels + needed);
  b = reduced(node, b, a.labels + needed);
  std::string batch, rows, columns, inner;
  for (char label : a.labels)
    (!contains(b.labels, label) ? rows : contains(needed, label) ? batch : inner).push_back(label);
  for (char label : b.labels)
    if (!contains(a.labels, label))
      columns.push_back(label);
  a = permuted(node, a, batch + rows + inner);
  b = permuted(node, b, batch + inner + columns);
  if (!a.value || !b.value)
    return {};
  auto sizes = [](const Labelled &tensor, const std::string &labels) {
    Dims dims;
    for (char label : labels)
      dims.push_back(nn::shapeOf(tensor.value)[tensor.labels.find(label)]);
    return dims;
  };
  auto product = [](const Dims &dims) { return std::accumulate(dims.begin(), dims.end(), int64_t(1), std::multiplies<>()); };
  Dims result = sizes(a, batch), m = sizes(a, rows), k = sizes(a, inner), n = sizes(b, columns);
  if (sizes(b, batch) != result || sizes(b, inner) != k) {
    (void)node.fail("dimensions of the same label differ in size");
    return {};
  }
  SmallVector<int64_t> left(result.begin(), result.end()), right(left);
  left.append({product(m), product(k)});
  right.append({product(k), product(n)});
  Value value = plainMatmul(node, node.reshape(a.value, left), node.reshape(b.value, right));
  result.insert(result.end(), m.begin(), m.end());
  result.insert(result.end(), n.begin(), n.end());
  return {node.reshape(value, result), batch + rows + columns};
}

// A dimension of size one fits any size of its label: a term that has it so, another more, does without.
void withoutOnes(NodeContext &node, std::vector<Labelled> &terms) {
  std::map<char, int64_t> sizes;
  for (const Labelled &term : terms)
    for (size_t d = 0; d < term.labels.size(); ++d) {
      int64_t &size = sizes.try_emplace(term.labels[d], 1).first->second;
      size = std::max(size, nn::shapeOf(term.value)[d]);
    }
  for (Labelled &term : terms) {
    Dims shape;
    std::string kept;
    for (size_t d = 0; d < term.labels.size(); ++d) {
      int64_t size = nn::shapeOf(term.value)[d];
      if (size == 1 && sizes[term.labels[d]] > 1)
        continue;
      shape.push_back(size);
      kept.push_back(term.labels[d]);
    }
    term = {node.reshape(term.value, shape), kept};
  }
}

std::vector<std::string> splitTerms(const std::string &text) {
  std::vector<std::string> terms(1);
  for (char letter : text) {
    if (letter == ',')
      terms.emplace_back();
    else
      terms.back().push_back(letter);
  }
  return terms;
}

// The labels of the result where the equation leaves them out: those that occur once, in alphabetical order.
std::string implicitResult(const std::vector<Labelled> &terms) {
  std::map<char, int> times;
  for (const Labelled &term : terms)
    for (char label : term.labels)
      ++times[label];
  std::string digits, letters;
  for (auto [label, count] : times) {
    if (std::isdigit(static_cast<unsigned char>(label)))
      digits.insert(digits.begin(), label);
    else if (count == 1)
      letters.push_back(label);
  }
  return digits + letters;
}

LogicalResult einsum(NodeContext &node) {
  std::string equation = node.attributes.text("equation", "");
  std::erase(equation, ' ');
  size_t arrow = equation.find("->");
  if (llvm::any_of(equation,
                   [](unsigned char letter) { return !std::isalpha(letter) && !std::strchr(",.->", letter); }))
    return node.fail("equation '{}' has a label that is no letter", equation);
  std::vector<std::string> names = splitTerms(equation.substr(0, arrow));
  if (names.size() != node.inputCount())
    return node.fail("equation '{}' names {} operands, the node has {}", equation, names.size(), node.inputCount());
  SmallVector<Value> values;
  for (size_t i = 0; i < names.size(); ++i) {
    values.push_back(node.input(i));
    if (!values.back())
      return failure();
  }
  node.toOneType(values);
  std::vector<Labelled> terms;
  std::string behind; // the longest of what ellipses stand for
  for (size_t i = 0; i < names.size(); ++i) {
    Value value = values[i];
    auto labels = expandEllipsis(names[i], nn::shapeOf(value).size());
    if (!labels)
      return node.fail("equation '{}' does not fit operand {}", equation, i);
    std::string digits = *labels;
    std::erase_if(digits, [](char label) { return !std::isdigit(static_cast<unsigned char>(label)); });
    behind = std::max(behind, digits);
    terms.push_back(diagonal(node, {value, *labels}));
    if (!terms.back().value)
      return failure();
  }
  std::string result = arrow == std::string::npos ? implicitResult(terms) : equation.substr(arrow + 2);
  if (size_t at = result.find("..."); at != std::string::npos)
    result.replace(at, 3, behind);
  withoutOnes(node, terms);
  Labelled total = terms[0];
  for (size_t i = 1; i < terms.size(); ++i) {
    std::string needed = result;
    for (size_t j = i + 1; j < terms.size(); ++j)
      needed += terms[j].labels;
    total = contracted(node, total, terms[i], needed);
    if (!total.value)
      return failure();
  }
  total = reduced(node, total, result);
  if (total.labels.size() != result.size())
    return node.fail("equation '{}' repeats or invents a label in its result", equation);
  return node.result(permuted(node, total, result).value);
}

//===-- determinants ------------------------------------------------------------------------------------------===//

// The determinant [.., 1, 1], expanded along the first row.
Value minor(NodeContext &node, Value matrix) {
  ArrayRef<int64_t> shape = nn::shapeOf(matrix);
  auto rank = static_cast<int64_t>(shape.size()), size = shape.back();
  if (size == 1)
    return matrix;
  Value top = node.slice(matrix, rank - 2, 0, 1), rest = node.slice(matrix, rank - 2, 1, size - 1), sum;
  for (int64_t column = 0; column < size; ++column) {
    Value left = node.slice(rest, rank - 1, 0, column),
          right = node.slice(rest, rank - 1, column + 1, size - 1 - column);
    Value others = node.concat({left, right}, rank - 1);
    if (!others)
      return {};
    Value part = node.mul(node.slice(top, rank - 1, column, 1), minor(node, others));
    sum = !sum ? part : column % 2 ? node.sub(sum, part) : node.add(sum, part);
  }
  return sum;
}

LogicalResult determinant(NodeContext &node) {
  Value value = node.input(0);
  if (!value)
    return failure();
  Dims shape(nn::shapeOf(value));
  constexpr int64_t kMost = 4; // the number of products grows as the factorial
  if (shape.size() < 2 || shape.back() != shape[shape.size() - 2] || shape.back() < 1 || shape.back() > kMost)
    return node.fail("needs square matrices of at most {0} by {0}, not {1}", kMost, dimsText(shape));
  Value result = minor(node, value);
  shape.resize(shape.size() - 2);
  return node.result(result ? node.reshape(result, shape) : result);
}

} // namespace

void addProducts(Converters &table) {
  table.add("MatMul", matmul);
  table.add("Gemm", gemm);
  table.add("Einsum", einsum);
  table.add("Det", determinant); // up to 4 by 4
}

} // namespace mt::onnx
