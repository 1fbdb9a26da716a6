#include "runtime/train/GradientFile.h"

#include "kernels/Optimizers.h"

#include <algorithm>

namespace mt::train {

Result<std::unique_ptr<GradientFile>> GradientFile::create(const std::string &path, const plan::Plan &plan) {
  Result<NpzWriter> writer = NpzWriter::create(path);
  if (!writer)
    return writer.status().within("--save-gradients");
  return std::unique_ptr<GradientFile>(new GradientFile(std::move(*writer), plan));
}

GradientFile::GradientFile(NpzWriter writer, const plan::Plan &plan) : writer(std::move(writer)), plan(&plan) {
  for (const plan::Parameter &parameter : plan.parameters) {
    const kernels::OptimizerSpec *optimizer = kernels::findOptimizer(parameter.optimizer);
    wanted.push_back(parameter.trainable && optimizer && optimizer->learns); // of running statistics no gradient comes
    missing += wanted.back();
  }
}

void GradientFile::add(int64_t parameter, int64_t first, std::span<const float> gradient) {
  auto index = static_cast<size_t>(parameter);
  if (parameter < 0 || index >= wanted.size() || !wanted[index] || !failure)
    return;
  const plan::Parameter &about = plan->parameters[index];
  const auto elements = static_cast<size_t>(kernels::OperandType{DType::f32, about.dims}.elements());
  if (gradient.size() < elements) {
    Part &part = parts[parameter];
    part.values.resize(elements);
    std::ranges::copy(gradient, part.values.begin() + first);
    part.come += gradient.size();
    if (part.come < elements)
      return;
    gradient = part.values;
  }
  wanted[index] = false;
  --missing;
  failure = writer->add(about.name, DType::f32, about.dims, std::as_bytes(gradient));
  parts.erase(parameter);
}

Status GradientFile::finish() {
  if (!writer)
    return Status();
  if (failure && missing > 0)
    failure =
        fail("{} gradients never came: the step was skipped, or the plan does not update what they are of", missing);
  if (failure)
    failure = writer->finish();
  writer.reset();
  return failure.within("--save-gradients");
}

} // namespace mt::train
