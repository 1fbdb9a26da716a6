// recurrence and its gradient between two products: a thread for each element of the state, which reads and writes some
// twenty numbers. A step is bound by how fast kernels start.
#include "kernels/cuda/Recurrence.h"

#include "kernels/cuda/Elements.cuh"

namespace mt::kernels::cuda {
namespace {

using R = Recurrence;

/// Elements of a row of gates.
__device__ __forceinline__ int64_t lineOf(const R &shape) { return shape.gates * shape.width; }

__device__ __forceinline__ float value(R::Activation activation, float x) {
  if (activation == R::Activation::tanh)
    return tanhf(x);
  if (activation == R::Activation::relu)
    return x > 0 || x != x ? x : 0;
  return 1 / (1 + expf(-x));
}

/// The derivative, from the value y of preactivation z; none where the clip holds z.
__device__ __forceinline__ float slope(R::Activation activation, float y) {
  if (activation == R::Activation::tanh)
    return 1 - y * y;
  if (activation == R::Activation::relu)
    return y > 0 ? 1 : 0;
  return y * (1 - y);
}
__device__ __forceinline__ float slope(const R &shape, R::Activation activation, float z, float y) {
  return shape.clip > 0 && fabsf(z) >= shape.clip ? 0 : slope(activation, y);
}

__device__ __forceinline__ float clipped(const R &shape, float z) {
  return shape.clip > 0 ? fminf(fmaxf(z, -shape.clip), shape.clip) : z;
}

__device__ __forceinline__ float load(const In &in, int64_t at) {
  return in.data ? loadOne<float>(in.type, in.data, at) : 0.0f;
}
__device__ __forceinline__ void store(const Out &out, int64_t at, float value) {
  if (out.data)
    storeOne(out.type, out.data, at, value, false);
}

/// The element of this thread: its places in [batch, width], and of its first gate in [batch, line].
struct Element {
  int64_t row, column, state, line;
  bool exists;
  __device__ explicit Element(const R &shape) {
    state = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    exists = state < shape.batch * shape.width;
    row = state / shape.width, column = state % shape.width;
    line = row * lineOf(shape) + column;
  }
};

__device__ __forceinline__ bool reaches(const StepLengths &lengths, int64_t row, int64_t step) {
  if (!lengths.data)
    return true;
  return step < (lengths.wide ? static_cast<const int64_t *>(lengths.data)[row]
                              : static_cast<const int32_t *>(lengths.data)[row]);
}

/// Preactivations z and values y of all gates of an element, and lstm's new cell.
struct Gates {
  float x[R::kMostGates], p[R::kMostGates], peephole[3];
  float z[R::kMostGates], y[R::kMostGates];
  float cell, raised;

  __device__ void activate(const R &shape, R::Activation activation, int at, float preactivation) {
    z[at] = clipped(shape, preactivation);
    y[at] = value(activation, z[at]);
  }
  __device__ void reset(const R &shape) { activate(shape, shape.gate, R::kReset, x[R::kReset] + p[R::kReset]); }

  /// The new state.
  __device__ float forward(const R &shape, float hiddenBefore, float cellBefore) {
    if (shape.kind == R::Kind::lstm)
      return lstm(shape, cellBefore);
    if (shape.kind == R::Kind::gru)
      return gru(shape, hiddenBefore);
    activate(shape, shape.candidate, 0, x[0] + p[0]);
    return y[0];
  }
  __device__ float lstm(const R &shape, float before) {
    activate(shape, shape.gate, R::kInput, x[R::kInput] + p[R::kInput] + peephole[R::kPeepInput] * before);
    activate(shape, shape.candidate, R::kCell, x[R::kCell] + p[R::kCell]);
    if (shape.coupled)
      z[R::kForget] = 0, y[R::kForget] = 1 - y[R::kInput];
    else
      activate(shape, shape.gate, R::kForget, x[R::kForget] + p[R::kForget] + peephole[R::kPeepForget] * before);
    cell = y[R::kForget] * before + y[R::kInput] * y[R::kCell];
    activate(shape, shape.gate, R::kOutput, x[R::kOutput] + p[R::kOutput] + peephole[R::kPeepOutput] * cell);
    raised = value(shape.output, cell);
    return y[R::kOutput] * raised;
  }
  __device__ float gru(const R &shape, float before) {
    reset(shape);
    activate(shape, shape.gate, R::kUpdate, x[R::kUpdate] + p[R::kUpdate]);
    activate(shape, shape.candidate, R::kHidden,
             x[R::kHidden] + (shape.linearBeforeReset ? y[R::kReset] : 1) * p[R::kHidden]);
    return (1 - y[R::kUpdate]) * y[R::kHidden] + y[R::kUpdate] * before;
  }
};

__device__ __forceinline__ Gates gatesOf(const RecurrentStep &a, const Element &at) {
  Gates made = {};
  const int64_t width = a.shape.width, first = a.step * a.shape.batch * lineOf(a.shape) + at.line;
  for (int i = 0; i < a.shape.gates; ++i) {
    made.x[i] = load(a.gates, first + i * width);
    made.p[i] = (a.begins ? 0.0f : a.products[at.line + i * width]) + load(a.bias, at.column + i * width);
  }
  for (int i = 0; i < 3; ++i)
    made.peephole[i] = load(a.peephole, at.column + i * width);
  return made;
}

__device__ __forceinline__ Gates gatesOf(const RecurrentStepBack &a, const Element &at) {
  Gates made = {};
  const int64_t width = a.shape.width, first = a.step * a.shape.batch * lineOf(a.shape) + at.line;
  for (int i = 0; i < a.shape.gates; ++i) {
    made.x[i] = load(a.gates, first + i * width);
    made.p[i] = load(a.products, first + i * width);
  }
  for (int i = 0; i < 3; ++i)
    made.peephole[i] = load(a.peephole, at.column + i * width);
  return made;
}

__global__ void __launch_bounds__(kThreads) beginState(In initial, int64_t count, float *state, Out operand) {
  int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= count)
    return;
  state[i] = load(initial, i);
  store(operand, i, state[i]);
}

__global__ void __launch_bounds__(kThreads) resetState(const __grid_constant__ RecurrentStep a) {
  Element at(a.shape);
  if (!at.exists)
    return;
  Gates gates = gatesOf(a, at);
  gates.reset(a.shape);
  store(a.operand, at.state, gates.y[R::kReset] * a.hidden[at.state]);
}

__global__ void __launch_bounds__(kThreads) advanceState(const __grid_constant__ RecurrentStep a) {
  Element at(a.shape);
  if (!at.exists)
    return;
  const int64_t place = a.step * a.shape.batch * a.shape.width + at.state;
  const bool lstm = a.shape.kind == R::Kind::lstm;
  float hidden = a.hidden[at.state], cell = lstm ? a.cell[at.state] : 0;
  if (reaches(a.lengths, at.row, a.step)) {
    Gates gates = gatesOf(a, at);
    a.hidden[at.state] = hidden = gates.forward(a.shape, hidden, cell);
    if (lstm)
      a.cell[at.state] = cell = gates.cell;
  }
  store(a.operand, at.state, hidden);
  store(a.hiddenOut, place, hidden);
  store(a.cellOut, place, cell);
}

/// Gradients of what an element's gates get from the inputs and from products.
struct Slopes {
  float dx[R::kMostGates], dp[R::kMostGates];

  __device__ void lstm(const R &shape, const Gates &g, float before, float &dhidden, float &dcell) {
    dx[R::kOutput] = dhidden * g.raised * slope(shape, shape.gate, g.z[R::kOutput], g.y[R::kOutput]);
    float d =
        dcell + dhidden * g.y[R::kOutput] * slope(shape.output, g.raised) + dx[R::kOutput] * g.peephole[R::kPeepOutput];
    dx[R::kInput] =
        d * (g.y[R::kCell] - (shape.coupled ? before : 0)) * slope(shape, shape.gate, g.z[R::kInput], g.y[R::kInput]);
    dx[R::kForget] = shape.coupled ? 0 : d * before * slope(shape, shape.gate, g.z[R::kForget], g.y[R::kForget]);
    dx[R::kCell] = d * g.y[R::kInput] * slope(shape, shape.candidate, g.z[R::kCell], g.y[R::kCell]);
    dcell =
        d * g.y[R::kForget] + dx[R::kInput] * g.peephole[R::kPeepInput] + dx[R::kForget] * g.peephole[R::kPeepForget];
    dhidden = 0;
    for (int i = 0; i < R::kMostGates; ++i)
      dp[i] = dx[i];
  }
  __device__ void gru(const R &shape, const Gates &g, float before, float &dhidden) {
    dx[R::kUpdate] = dhidden * (before - g.y[R::kHidden]) * slope(shape, shape.gate, g.z[R::kUpdate], g.y[R::kUpdate]);
    dx[R::kHidden] = dhidden * (1 - g.y[R::kUpdate]) * slope(shape, shape.candidate, g.z[R::kHidden], g.y[R::kHidden]);
    dhidden *= g.y[R::kUpdate];
    dx[R::kReset] = 0;
    if (shape.linearBeforeReset)
      dx[R::kReset] = dx[R::kHidden] * g.p[R::kHidden] * slope(shape, shape.gate, g.z[R::kReset], g.y[R::kReset]);
    dp[R::kUpdate] = dx[R::kUpdate];
    dp[R::kReset] = dx[R::kReset];
    dp[R::kHidden] = dx[R::kHidden] * (shape.linearBeforeReset ? g.y[R::kReset] : 1);
  }
  __device__ void rnn(const R &shape, const Gates &g, float &dhidden) {
    dx[0] = dp[0] = dhidden * slope(shape, shape.candidate, g.z[0], g.y[0]);
    dhidden = 0;
  }
};

__global__ void __launch_bounds__(kThreads) goBack(const __grid_constant__ RecurrentStepBack a) {
  Element at(a.shape);
  if (!at.exists)
    return;
  const R &shape = a.shape;
  const bool lstm = shape.kind == R::Kind::lstm;
  const int64_t place = a.step * shape.batch * shape.width + at.state,
                first = a.step * shape.batch * lineOf(shape) + at.line;
  float dhidden = load(a.dhidden, place) + a.hidden[at.state],
        dcell = lstm ? load(a.dcell, place) + a.cell[at.state] : 0;
  Slopes slopes = {};
  if (reaches(a.lengths, at.row, a.step)) {
    Gates gates = gatesOf(a, at);
    float before = load(a.before, place), cellBefore = load(a.cellBefore, place);
    gates.forward(shape, before, cellBefore);
    if (lstm)
      slopes.lstm(shape, gates, cellBefore, dhidden, dcell);
    else if (shape.kind == R::Kind::gru)
      slopes.gru(shape, gates, before, dhidden);
    else
      slopes.rnn(shape, gates, dhidden);
  }
  a.hidden[at.state] = dhidden;
  if (lstm)
    a.cell[at.state] = dcell;
  for (int i = 0; i < shape.gates; ++i) {
    store(a.slopes, at.line + i * shape.width, slopes.dp[i]);
    store(a.dgates, first + i * shape.width, slopes.dx[i]);
    store(a.dproducts, first + i * shape.width, slopes.dp[i]);
  }
}

__global__ void __launch_bounds__(kThreads) goBackThroughReset(const __grid_constant__ RecurrentStepBack a) {
  Element at(a.shape);
  if (!at.exists || !reaches(a.lengths, at.row, a.step))
    return;
  const int64_t first = a.step * a.shape.batch * lineOf(a.shape) + at.line + R::kReset * a.shape.width;
  Gates gates = gatesOf(a, at);
  gates.reset(a.shape);
  float left = a.left[at.state], before = load(a.before, a.step * a.shape.batch * a.shape.width + at.state);
  float dx = left * before * slope(a.shape, a.shape.gate, gates.z[R::kReset], gates.y[R::kReset]);
  a.hidden[at.state] += left * gates.y[R::kReset];
  store(a.slopes, at.line + R::kReset * a.shape.width, dx);
  store(a.dgates, first, dx);
  store(a.dproducts, first, dx);
}

} // namespace

RecurrentStepCode resetStateCode() { return resetState; }
RecurrentStepCode advanceStateCode() { return advanceState; }
BeginStateCode beginStateCode() { return beginState; }
RecurrentStepBackCode goBackCode() { return goBack; }
RecurrentStepBackCode goBackThroughResetCode() { return goBackThroughReset; }

} // namespace mt::kernels::cuda
