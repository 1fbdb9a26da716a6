// Windows, Fourier transforms and mel filters of signals. Windows and filters are known when compiling; a transform is
// a product with a matrix of cosines and sines.
#include "compiler/onnx/Converters.h"
#include "compiler/onnx/ProductParts.h"

#include <cmath>
#include <numbers>
#include <numeric>

using namespace mlir;

namespace mt::onnx {
namespace {

//===-- windows -------------------------------------------------------------------------------------------------===//

std::optional<DType> outputType(NodeContext &node) {
  auto wanted = static_cast<int>(node.attributes.integer("output_datatype", 1));
  std::optional<DType> type = elementType(wanted);
  if (!type)
    (void)node.fail("gives {}, for which there are no kernels", onnxTypeName(wanted));
  return type;
}

LogicalResult giveReals(NodeContext &node, DType type, Dims dims, std::vector<double> values) {
  HostTensor exact = HostTensor::ofReals(DType::f64, std::move(dims), std::move(values));
  node.knownResult(0, exact.converted(type));
  return success();
}

// a - b cos(2 pi i / n) + c cos(4 pi i / n), n the size, or one less where the window is symmetric.
LogicalResult cosineWindow(NodeContext &node, double a, double b, double c) {
  auto size = node.integers(0, "size");
  auto type = outputType(node);
  if (!size || !type)
    return failure();
  if (size->size() != 1 || (*size)[0] < 0 || (*size)[0] > nn::kConstantLimit)
    return node.fail("its size must be one number of at most {}", nn::kConstantLimit);
  int64_t count = (*size)[0], period = node.attributes.integer("periodic", 1) ? count : count - 1;
  std::vector<double> values;
  for (int64_t i = 0; i < count; ++i) {
    double angle = 2 * std::numbers::pi * static_cast<double>(i) / static_cast<double>(std::max<int64_t>(1, period));
    values.push_back(a - b * std::cos(angle) + c * std::cos(2 * angle));
  }
  return giveReals(node, *type, {count}, std::move(values));
}
LogicalResult hann(NodeContext &node) { return cosineWindow(node, 0.5, 0.5, 0); }
LogicalResult hamming(NodeContext &node) { return cosineWindow(node, 25.0 / 46, 21.0 / 46, 0); }
LogicalResult blackman(NodeContext &node) { return cosineWindow(node, 0.42, 0.5, 0.08); }

double melOf(double hertz) { return 2595 * std::log10(1 + hertz / 700); }
double hertzOf(double mel) { return 700 * (std::pow(10, mel / 2595) - 1); }

// Triangles whose corners are evenly spaced in mel, by the number of the spectrum's bin.
LogicalResult melWeights(NodeContext &node) {
  auto bins = node.integers(0, "number of bins"), length = node.integers(1, "length"), rate = node.integers(2, "rate");
  const HostTensor *lowest = node.known(3), *highest = node.known(4);
  auto type = outputType(node);
  if (!bins || !length || !rate || !type)
    return failure();
  if (!lowest || !highest || lowest->elements() != 1 || highest->elements() != 1 || bins->size() != 1 ||
      length->size() != 1 || rate->size() != 1 || (*rate)[0] <= 0 || (*length)[0] < 0 || (*bins)[0] <= 0)
    return node.fail("its inputs must be positive numbers that are known when compiling");
  int64_t count = (*bins)[0], rows = (*length)[0] / 2 + 1;
  if (count > nn::kConstantLimit || rows > nn::kConstantLimit / count)
    return node.fail("its {} by {} weights are more than the {} of a constant", rows, count, nn::kConstantLimit);
  double low = melOf(lowest->realAt(0)), step = (melOf(highest->realAt(0)) - low) / static_cast<double>(count + 2);
  std::vector<int64_t> corner;
  for (int64_t i = 0; i < count + 2; ++i)
    corner.push_back(static_cast<int64_t>(
        std::floor(static_cast<double>((*length)[0] + 1) * hertzOf(low + step * static_cast<double>(i)) /
                   static_cast<double>((*rate)[0]))));
  std::vector<double> values(static_cast<size_t>(rows * count), 0.0);
  auto set = [&](int64_t row, int64_t bin, double value) {
    if (row >= 0 && row < rows)
      values[static_cast<size_t>(row * count + bin)] = value;
  };
  for (int64_t bin = 0; bin < count; ++bin) {
    auto at = static_cast<size_t>(bin);
    int64_t left = corner[at], middle = corner[at + 1], right = corner[at + 2];
    for (int64_t row = left; row <= middle; ++row)
      set(row, bin, middle == left ? 1 : static_cast<double>(row - left) / static_cast<double>(middle - left));
    for (int64_t row = middle; row < right; ++row)
      set(row, bin, static_cast<double>(right - row) / static_cast<double>(right - middle));
  }
  return giveReals(node, *type, {rows, count}, std::move(values));
}

//===-- Fourier transforms --------------------------------------------------------------------------------------===//

struct Complex {
  Value real, imaginary; ///< imaginary: null where it is zero
};

// 2 pi row column / length in 64 bits, the product taken modulo the length: small and exact.
Value angles(NodeContext &node, int64_t rows, int64_t columns, int64_t length) {
  Type integer = node.builder.getI64Type();
  Value row = node.iota({rows, 1}, integer, 0, 0, 1), column = node.iota({1, columns}, integer, 1, 0, 1);
  Value turns = node.mul(row, column);
  turns = node.emit<nn::ModOp>({turns, node.scalar(turns, static_cast<double>(length))});
  Value real = turns ? node.cast(turns, node.builder.getF64Type()) : Value();
  return real ? node.mul(real, node.scalar(real, 2 * std::numbers::pi / static_cast<double>(length))) : Value();
}

// The transform over the last dimension: sums of x[n] e^(-+ 2 pi i k n / length) for k below `bins`.
Complex transform(NodeContext &node, const Complex &signal, int64_t length, int64_t bins, bool inverse) {
  Value angle = angles(node, nn::shapeOf(signal.real).back(), bins, length);
  Value cosine = node.emit<nn::CosOp>({angle}), sine = node.emit<nn::SinOp>({angle});
  if (!inverse)
    sine = node.emit<nn::NegOp>({sine});
  if (!cosine || !sine)
    return {};
  cosine = node.cast(cosine, getElementTypeOrSelf(signal.real));
  sine = node.cast(sine, getElementTypeOrSelf(signal.real));
  Complex result{matmulOf(node, signal.real, cosine), matmulOf(node, signal.real, sine)};
  if (signal.imaginary) {
    result.real = node.sub(result.real, matmulOf(node, signal.imaginary, sine));
    result.imaginary = node.add(result.imaginary, matmulOf(node, signal.imaginary, cosine));
  }
  return result;
}

// Of the bins of a real signal, which has them twice, back to it: those that stand for two count twice.
Value realSignal(NodeContext &node, const Complex &bins, int64_t length) {
  int64_t count = nn::shapeOf(bins.real).back();
  std::vector<double> times(static_cast<size_t>(count), 2.0);
  times.front() = 1;
  if (length % 2 == 0 && count == length / 2 + 1)
    times.back() = 1;
  Value weights = node.constant(HostTensor::ofReals(dtypeOf(getElementTypeOrSelf(bins.real)), {count}, times));
  Complex weighted{node.mul(bins.real, weights), node.mul(bins.imaginary, weights)};
  return transform(node, weighted, length, length, true).real;
}

// The last dimension cut or filled with zeros to `size`.
Value resized(NodeContext &node, Value value, int64_t size) {
  if (!value)
    return {};
  auto last = static_cast<int64_t>(nn::shapeOf(value).size()) - 1;
  int64_t has = nn::shapeOf(value).back();
  if (has >= size)
    return node.slice(value, last, 0, size);
  SmallVector<int64_t> none(nn::shapeOf(value).size(), 0), high(none);
  high.back() = size - has;
  return node.emit<nn::PadOp>({value}, {node.intsAttr("low", none), node.intsAttr("high", high),
                                        node.intsAttr("interior", none), node.realAttr("value", 0)});
}

// Real and imaginary parts of [.., 1 or 2], without that dimension and with dimension `axis` last.
Complex partsOf(NodeContext &node, Value value, int64_t axis) {
  ArrayRef<int64_t> shape = nn::shapeOf(value);
  auto last = static_cast<int64_t>(shape.size()) - 1;
  Dims order(shape.size() - 1), flat(shape.begin(), shape.end() - 1);
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[static_cast<size_t>(axis)], order.back());
  auto part = [&](int64_t which) {
    return node.transpose(node.reshape(node.slice(value, last, which, 1), flat), order);
  };
  return {part(0), shape.back() == 2 ? part(1) : Value()};
}

// The reverse of partsOf.
Value joined(NodeContext &node, const Complex &parts, int64_t axis) {
  if (!parts.real)
    return {};
  Dims order(nn::shapeOf(parts.real).size());
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[static_cast<size_t>(axis)], order.back());
  SmallVector<Value> planes;
  for (Value part : {parts.real, parts.imaginary}) {
    Value moved = part ? node.transpose(part, order) : Value();
    if (!moved)
      continue;
    SmallVector<int64_t> shape(nn::shapeOf(moved));
    shape.push_back(1);
    planes.push_back(node.reshape(moved, shape));
  }
  return node.concat(planes, static_cast<int64_t>(order.size()));
}

// Before opset 20 the axis is an attribute; it never counts the last dimension, of the parts.
std::optional<int64_t> transformAxis(NodeContext &node, int64_t rank) {
  int64_t axis = node.attributes.integer("axis", node.opset < 20 ? 1 : -2);
  if (node.has(2)) {
    auto given = node.integers(2, "axis");
    if (!given || given->size() != 1)
      return std::nullopt;
    axis = (*given)[0];
  }
  std::optional<int64_t> front = frontAxis(axis, rank);
  if (front && *front < rank - 1)
    return front;
  (void)node.fail("axis {} is out of range for rank {}", axis, rank);
  return std::nullopt;
}

LogicalResult fourier(NodeContext &node) {
  Value value = node.input(0);
  if (!value)
    return failure();
  ArrayRef<int64_t> shape = nn::shapeOf(value);
  if (shape.size() < 2 || (shape.back() != 1 && shape.back() != 2))
    return node.fail("needs a last dimension of one, or of two: real and imaginary parts");
  auto axis = transformAxis(node, static_cast<int64_t>(shape.size()));
  if (!axis)
    return failure();
  bool inverse = node.attributes.integer("inverse", 0), half = node.attributes.integer("onesided", 0);
  int64_t size = shape[static_cast<size_t>(*axis)], length = inverse && half ? 2 * (size - 1) : size;
  if (node.has(1)) {
    auto given = node.integers(1, "length");
    if (!given || given->size() != 1 || (*given)[0] < 1)
      return node.fail("its length must be one positive number");
    length = (*given)[0];
  }
  int64_t taken = inverse && half ? length / 2 + 1 : length;
  Complex signal = partsOf(node, value, *axis), result;
  signal.real = resized(node, signal.real, taken);
  if (signal.imaginary)
    signal.imaginary = resized(node, signal.imaginary, taken);
  if (!signal.real || length < 1)
    return node.fail("transforms nothing");
  if (inverse && half) {
    if (!signal.imaginary)
      return node.fail("the inverse of half a spectrum needs real and imaginary parts");
    result.real = realSignal(node, signal, length);
  } else {
    result = transform(node, signal, length, half ? length / 2 + 1 : length, inverse);
  }
  if (inverse)
    for (Value *part : {&result.real, &result.imaginary})
      if (*part)
        *part = node.mul(*part, node.scalar(*part, 1.0 / static_cast<double>(length)));
  return node.result(joined(node, result, *axis));
}

// Frames of a signal [B, L]: [B, frames, length], `step` apart.
Value framesOf(NodeContext &node, Value signal, int64_t length, int64_t step, int64_t frames) {
  Type integer = node.builder.getI64Type();
  Value start = node.iota({frames, 1}, integer, 0, 0, static_cast<double>(step));
  Value places = node.add(start, node.iota({1, length}, integer, 1, 0, 1));
  return node.emit<nn::GatherOp>({signal, places}, {node.intAttr("axis", 1)});
}

LogicalResult shortTimeFourier(NodeContext &node) {
  Value value = node.input(0), window = node.has(2) ? node.input(2) : Value();
  auto step = node.integers(1, "step");
  if (!value || !step || (node.has(2) && !window))
    return failure();
  ArrayRef<int64_t> shape = nn::shapeOf(value);
  if (shape.size() < 2 || shape.size() > 3 || (shape.size() == 3 && shape[2] > 2) || step->size() != 1 ||
      (*step)[0] < 1)
    return node.fail("needs a signal [batch, length, 1 or 2] and a positive step");
  int64_t length = window ? nn::shapeOf(window).back() : shape[1];
  if (node.has(3)) {
    auto given = node.integers(3, "frame length");
    if (!given || given->size() != 1)
      return failure();
    length = (*given)[0];
  }
  if (length < 1 || length > shape[1])
    return node.fail("its frames of {} do not fit a signal of {}", length, shape[1]);
  int64_t frames = (shape[1] - length) / (*step)[0] + 1;
  Complex signal = partsOf(node, shape.size() == 3 ? value : node.reshape(value, {shape[0], shape[1], 1}), 1);
  for (Value *part : {&signal.real, &signal.imaginary})
    if (*part) {
      *part = framesOf(node, *part, length, (*step)[0], frames);
      if (window)
        *part = node.mul(*part, window);
    }
  if (!signal.real)
    return failure();
  bool half = node.attributes.integer("onesided", 1);
  return node.result(joined(node, transform(node, signal, length, half ? length / 2 + 1 : length, false), 2));
}

} // namespace

void addSignals(Converters &table) {
  table.add("HannWindow", hann);
  table.add("HammingWindow", hamming);
  table.add("BlackmanWindow", blackman);
  table.add("MelWeightMatrix", melWeights);
  table.add("DFT", fourier);
  table.add("STFT", shortTimeFourier);
}

} // namespace mt::onnx
