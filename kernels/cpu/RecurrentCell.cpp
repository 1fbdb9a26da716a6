#include "kernels/cpu/RecurrentCell.h"

#include <algorithm>
#include <cmath>

namespace mt::kernels::cpu {
namespace {

using R = Recurrence;

RowFunction<float> functionOf(R::Activation activation) {
  return rowFunction<float>(activation == R::Activation::sigmoid ? "sigmoid"
                            : activation == R::Activation::relu  ? "relu"
                                                                 : "tanh");
}

/// Derivatives from the value y.
float slope(R::Activation activation, float y) {
  switch (activation) {
  case R::Activation::sigmoid:
    return y * (1 - y);
  case R::Activation::relu:
    return y > 0 ? 1.0f : 0.0f;
  case R::Activation::tanh:
    break;
  }
  return 1 - y * y;
}

} // namespace

RecurrentCell::RecurrentCell(const Recurrence &shape)
    : shape(shape), gate(functionOf(shape.gate)), candidate(functionOf(shape.candidate)),
      output(functionOf(shape.output)) {}

void RecurrentCell::activate(RowFunction<float> function, Step &step, int at) const {
  float *z = step.z[at], *y = step.y[at];
  if (shape.clip > 0)
    for (int64_t j = 0; j < step.count; ++j)
      z[j] = std::clamp(z[j], -shape.clip, shape.clip);
  const float *in = z;
  function(&in, &y, step.count);
}

void RecurrentCell::scaleBySlope(Activation activation, const Step &step, int at, float *dz) const {
  for (int64_t j = 0; j < step.count; ++j) {
    bool held = shape.clip > 0 && std::abs(step.z[at][j]) >= shape.clip;
    dz[j] = held ? 0 : dz[j] * slope(activation, step.y[at][j]);
  }
}

void RecurrentCell::forward(Step &step) const {
  if (shape.kind == R::Kind::lstm)
    return lstm(step);
  if (shape.kind == R::Kind::gru)
    return gru(step);
  for (int64_t j = 0; j < step.count; ++j)
    step.z[0][j] = step.x[0][j] + step.p[0][j];
  activate(candidate, step, 0);
  std::copy_n(step.y[0], step.count, step.hidden);
}

void RecurrentCell::lstm(Step &s) const {
  auto add = [&](int at, const float *peephole, const float *cell) {
    for (int64_t j = 0; j < s.count; ++j)
      s.z[at][j] = s.x[at][j] + s.p[at][j] + (peephole ? peephole[j] * cell[j] : 0);
  };
  add(R::kInput, s.peephole[R::kPeepInput], s.cellBefore);
  add(R::kCell, nullptr, nullptr);
  activate(gate, s, R::kInput);
  activate(candidate, s, R::kCell);
  if (shape.coupled) {
    for (int64_t j = 0; j < s.count; ++j)
      s.y[R::kForget][j] = 1 - s.y[R::kInput][j];
  } else {
    add(R::kForget, s.peephole[R::kPeepForget], s.cellBefore);
    activate(gate, s, R::kForget);
  }
  for (int64_t j = 0; j < s.count; ++j)
    s.cell[j] = s.y[R::kForget][j] * s.cellBefore[j] + s.y[R::kInput][j] * s.y[R::kCell][j];
  add(R::kOutput, s.peephole[R::kPeepOutput], s.cell);
  activate(gate, s, R::kOutput);
  const float *cell = s.cell;
  float *raised = s.raised;
  output(&cell, &raised, s.count);
  for (int64_t j = 0; j < s.count; ++j)
    s.hidden[j] = s.y[R::kOutput][j] * raised[j];
}

void RecurrentCell::reset(Step &s) const {
  for (int64_t j = 0; j < s.count; ++j)
    s.z[R::kReset][j] = s.x[R::kReset][j] + s.p[R::kReset][j];
  activate(gate, s, R::kReset);
}

void RecurrentCell::gru(Step &s) const {
  reset(s);
  for (int64_t j = 0; j < s.count; ++j) {
    s.z[R::kUpdate][j] = s.x[R::kUpdate][j] + s.p[R::kUpdate][j];
    float factor = shape.linearBeforeReset ? s.y[R::kReset][j] : 1;
    s.z[R::kHidden][j] = s.x[R::kHidden][j] + factor * s.p[R::kHidden][j];
  }
  activate(gate, s, R::kUpdate);
  activate(candidate, s, R::kHidden);
  for (int64_t j = 0; j < s.count; ++j) {
    float update = s.y[R::kUpdate][j];
    s.hidden[j] = (1 - update) * s.y[R::kHidden][j] + update * s.hiddenBefore[j];
  }
}

void RecurrentCell::backward(const Step &step, Slopes &slopes) const {
  if (shape.kind == R::Kind::lstm)
    return lstmBack(step, slopes);
  if (shape.kind == R::Kind::gru)
    return gruBack(step, slopes);
  std::copy_n(slopes.dhidden, step.count, slopes.dx[0]);
  scaleBySlope(shape.candidate, step, 0, slopes.dx[0]);
  std::copy_n(slopes.dx[0], step.count, slopes.dp[0]);
  std::fill_n(slopes.dhidden, step.count, 0.0f);
}

void RecurrentCell::lstmBack(const Step &s, Slopes &d) const {
  for (int64_t j = 0; j < s.count; ++j)
    d.dx[R::kOutput][j] = d.dhidden[j] * s.raised[j];
  scaleBySlope(shape.gate, s, R::kOutput, d.dx[R::kOutput]);
  for (int64_t j = 0; j < s.count; ++j) {
    float dcell = d.dcell[j] + d.dhidden[j] * s.y[R::kOutput][j] * slope(shape.output, s.raised[j]) +
                  d.dx[R::kOutput][j] * s.peephole[R::kPeepOutput][j];
    d.dx[R::kInput][j] = dcell * (s.y[R::kCell][j] - (shape.coupled ? s.cellBefore[j] : 0));
    d.dx[R::kForget][j] = shape.coupled ? 0 : dcell * s.cellBefore[j];
    d.dx[R::kCell][j] = dcell * s.y[R::kInput][j];
    d.dcell[j] = dcell * s.y[R::kForget][j];
    d.dhidden[j] = 0;
  }
  scaleBySlope(shape.gate, s, R::kInput, d.dx[R::kInput]);
  scaleBySlope(shape.candidate, s, R::kCell, d.dx[R::kCell]);
  if (!shape.coupled)
    scaleBySlope(shape.gate, s, R::kForget, d.dx[R::kForget]);
  for (int64_t j = 0; j < s.count; ++j)
    d.dcell[j] +=
        d.dx[R::kInput][j] * s.peephole[R::kPeepInput][j] + d.dx[R::kForget][j] * s.peephole[R::kPeepForget][j];
  for (int at = 0; at < shape.gates; ++at)
    std::copy_n(d.dx[at], s.count, d.dp[at]);
}

void RecurrentCell::gruBack(const Step &s, Slopes &d) const {
  for (int64_t j = 0; j < s.count; ++j) {
    d.dx[R::kUpdate][j] = d.dhidden[j] * (s.hiddenBefore[j] - s.y[R::kHidden][j]);
    d.dx[R::kHidden][j] = d.dhidden[j] * (1 - s.y[R::kUpdate][j]);
    d.dhidden[j] *= s.y[R::kUpdate][j];
  }
  scaleBySlope(shape.gate, s, R::kUpdate, d.dx[R::kUpdate]);
  scaleBySlope(shape.candidate, s, R::kHidden, d.dx[R::kHidden]);
  for (int64_t j = 0; j < s.count; ++j) {
    d.dx[R::kReset][j] = shape.linearBeforeReset ? d.dx[R::kHidden][j] * s.p[R::kHidden][j] : 0;
    d.dp[R::kHidden][j] = d.dx[R::kHidden][j] * (shape.linearBeforeReset ? s.y[R::kReset][j] : 1);
  }
  scaleBySlope(shape.gate, s, R::kReset, d.dx[R::kReset]);
  std::copy_n(d.dx[R::kUpdate], s.count, d.dp[R::kUpdate]);
  std::copy_n(d.dx[R::kReset], s.count, d.dp[R::kReset]);
}

void RecurrentCell::backwardReset(const Step &s, const float *left, Slopes &d) const {
  for (int64_t j = 0; j < s.count; ++j) {
    d.dx[R::kReset][j] = left[j] * s.hiddenBefore[j];
    d.dhidden[j] += left[j] * s.y[R::kReset][j];
  }
  scaleBySlope(shape.gate, s, R::kReset, d.dx[R::kReset]);
  std::copy_n(d.dx[R::kReset], s.count, d.dp[R::kReset]);
}

} // namespace mt::kernels::cpu
