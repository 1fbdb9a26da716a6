// cuDNN's convolutions as they lie in memory, channels before places: its tensor cores want channels innermost, and its
// plans bring operands to that by themselves, within the workspace. Equal graphs are built once. What rounds more than
// 32-bit sums do, or adds in no fixed order, is left out: TF32, transforms of Winograd and Fourier, atomic additions.
#include "kernels/cuda/ConvolutionGraph.h"

#include "kernels/cuda/DnnGraph.h"

#include <algorithm>

namespace mt::kernels::cuda {
namespace {

using Tensor = std::shared_ptr<graph::Tensor_attributes>;
using Computes = ConvolutionGraph::Computes;

Dims strides(const Dims &dims) {
  Dims steps(dims.size(), 1);
  for (size_t d = dims.size() - 1; d > 0; --d)
    steps[d - 1] = steps[d] * dims[d];
  return steps;
}

Tensor input(graph::Graph &into, int64_t identifier, const char *label, const Dims &dims) {
  return into.tensor(
      graph::Tensor_attributes().set_name(label).set_uid(identifier).set_dim(dims).set_stride(strides(dims)));
}

template <typename Attributes> Attributes windows(const ConvolutionGraph &of) {
  Attributes attributes;
  attributes.set_pre_padding(of.low).set_post_padding(of.high).set_stride(of.strides).set_dilation(of.dilations);
  return attributes;
}

void describe(graph::Graph &into, const ConvolutionGraph &of) {
  Tensor made;
  switch (of.computes) {
  case Computes::result:
    made = into.conv_fprop(input(into, 1, "image", of.image), input(into, 2, "kernel", of.kernel),
                           windows<graph::Conv_fprop_attributes>(of));
    made->set_dim(of.result).set_stride(strides(of.result));
    break;
  case Computes::image:
    made = into.conv_dgrad(input(into, 1, "gradient", of.result), input(into, 2, "kernel", of.kernel),
                           windows<graph::Conv_dgrad_attributes>(of));
    made->set_dim(of.image).set_stride(strides(of.image));
    break;
  case Computes::kernel:
    made = into.conv_wgrad(input(into, 1, "gradient", of.result), input(into, 2, "image", of.image),
                           windows<graph::Conv_wgrad_attributes>(of));
    made->set_dim(of.kernel).set_stride(strides(of.kernel));
  }
  made->set_output(true).set_uid(3);
}

std::vector<Note> avoided(DType type) {
  std::vector<Note> notes = {
      Note::NONDETERMINISTIC, Note::REDUCED_PRECISION_REDUCTION, Note::DOWN_CONVERT_INPUTS, Note::FFT,
      Note::WINOGRAD,         Note::WINOGRAD_TILE_4x4,           Note::WINOGRAD_TILE_6x6,   Note::WINOGRAD_TILE_13x13};
  if (type == DType::f32)
    notes.push_back(Note::TENSOR_CORE);
  return notes;
}

Result<std::shared_ptr<DnnGraph>> graphOf(Dnn &dnn, const ConvolutionGraph &of, uint64_t scratch) {
  return knownGraph(dnn, fmt::format("{} {}", of.text(), scratch), [&]() -> Result<std::shared_ptr<DnnGraph>> {
    std::shared_ptr<DnnGraph> made = emptyGraph(of.type, dnn);
    describe(*made, of);
    MT_TRY(buildPlan(*made, dnn, scratch, avoided(of.type), "a convolution"));
    return made;
  });
}

} // namespace

std::string ConvolutionGraph::text() const {
  std::string made = fmt::format("convolution {} {}", name(type), static_cast<int>(computes));
  for (const Dims *dims : {&image, &kernel, &result, &strides, &dilations, &low, &high})
    made += fmt::format(" {}", fmt::join(*dims, "x"));
  return made;
}

Result<ConvolutionRun> prepareGraph(const ConvolutionGraph &of, uint64_t scratch, Library &library) {
  MT_ASSIGN(Dnn * dnn, library.dnn());
  MT_ASSIGN(std::shared_ptr<DnnGraph> built, graphOf(*dnn, of, scratch));
  return ConvolutionRun([dnn, built](Stream stream, ConvolutionAddresses addresses, void *workspace) {
    return enqueue(*built, *dnn, stream, kConvolutionLaunches, addresses, workspace, "a convolution");
  });
}

Result<ConvolutionPlan> convolutionPlan(const ConvolutionGraph &of, uint64_t scratch, Dnn &dnn) {
  MT_ASSIGN(std::shared_ptr<DnnGraph> built, graphOf(dnn, of, scratch));
  const auto &notes = built->plans.execution_plans[static_cast<size_t>(built->plans.candidate)]->getAllNumericNotes();
  auto has = [&](cudnnBackendNumericalNote_t note) { return std::ranges::find(notes, note) != notes.end(); };
  return ConvolutionPlan{workspaceOf(*built), !has(CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC),
                         has(CUDNN_NUMERICAL_NOTE_TENSOR_CORE)};
}

} // namespace mt::kernels::cuda
