#include "runtime/train/Export.h"

#include "runtime/base/Log.h"
#include "runtime/base/Sizes.h"
#include "runtime/train/Checkpoint.h"
#include "runtime/train/ExportAdapter.h"
#include "runtime/train/ExportFolder.h"
#include "runtime/train/ExportOnnx.h"
#include "runtime/train/Npz.h"
#include "runtime/train/RunFolder.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

namespace mt::train {
namespace {

namespace fs = std::filesystem;

/// Of files of what was trained alone: they have no weights to add adapters to.
Result<std::vector<float>> noBase() {
  return fail("--merge: is for a model with all of its weights: -o MODEL.onnx, or --like FOLDER");
}

Status exportSafetensors(const TrainedWeights &trained, const std::string &output) {
  std::vector<TensorInfo> tensors;
  for (const auto &[name, tensor] : trained.tensors())
    tensors.push_back({name, DType::f32, tensor.dims});
  MT_ASSIGN(SafetensorsWriter writer, SafetensorsWriter::create(output, tensors));
  for (const auto &[name, tensor] : trained.tensors())
    MT_TRY(trained.read(tensor, noBase,
                        [&](std::span<const float> values) { return writer.write(std::as_bytes(values)); }));
  return writer.finish();
}

/// The model's own initializers: arrays to compare, not to load into a module.
Status exportNpz(const TrainedWeights &trained, const std::string &output) {
  MT_ASSIGN(NpzWriter writer, NpzWriter::create(output));
  for (const auto &[name, tensor] : trained.tensors()) {
    if (!tensor.initializer)
      continue;
    std::vector<float> all;
    MT_TRY(trained.read(tensor, noBase, [&](std::span<const float> values) {
      all.insert(all.end(), values.begin(), values.end());
      return Status();
    }));
    MT_TRY(writer.add(name, DType::f32, tensor.dims, std::as_bytes(std::span(all))));
  }
  return writer.finish();
}

/// The .onnx that was trained: --model, or where the plan found it.
Result<OnnxFile> originalModel(const ExportOptions &options, const std::string &checkpoint) {
  if (!options.model.empty())
    return OnnxFile::open(options.model);
  MT_ASSIGN(CheckpointMeta meta, readMeta(checkpoint));
  std::error_code error;
  if (meta.modelFile.empty() || !fs::exists(meta.modelFile, error))
    return fail("the model that was trained is not at '{}' any more: say where it is with --model MODEL.onnx, or "
                "export to .safetensors",
                meta.modelFile);
  if (fs::is_directory(meta.modelFile, error))
    return fail("the model that was trained is the checkpoint folder '{}': export to .safetensors, or say with --model "
                "which MODEL.onnx mtmodel from-hf wrote of it",
                meta.modelFile);
  return OnnxFile::open(meta.modelFile);
}

Result<TrainedWeights> openTrained(const ExportOptions &options, const std::string &checkpoint) {
  MT_ASSIGN(TrainedWeights trained, TrainedWeights::open(checkpoint, options.merge, options.ema));
  if (options.merge && trained.adapters().empty())
    return fail("--merge: {} has no adapters: leave it out", checkpoint);
  if (!trained.knowsAliases())
    log().warn("{}: written by an older mtrun, it does not say which other names tied tensors have: copies under such "
               "names keep their old values. Resume the run with this mtrun, whose checkpoints say it",
               checkpoint);
  return trained;
}

Result<std::string> exportLike(const ExportOptions &options, const std::string &checkpoint) {
  MT_ASSIGN(const TrainedWeights trained, openTrained(options, checkpoint));
  if (!trained.adapters().empty() && !trained.isMerged()) {
    MT_ASSIGN(const uint64_t bytes, exportAdapter(trained, options.like, options.output));
    return fmt::format("{}: {} adapters of {} in PEFT's format, {}\n", options.output, trained.adapters().size(),
                       checkpoint, formatSize(bytes));
  }
  MT_ASSIGN(const ExportedFolder done, exportFolder(trained, options.like, options.output));
  if (!done.left.empty())
    log().warn("{}: {} not taken along: weights in another format, or no files", options.like,
               fmt::join(done.left, ", "));
  return fmt::format("{}: {} of {} tensors trained, in {} file{}, and {} other files of {}, {}\n", options.output,
                     done.trained, done.tensors, done.weightFiles, done.weightFiles == 1 ? "" : "s", done.otherFiles,
                     options.like, formatSize(done.bytes));
}

/// Returns the line that says what was written.
Result<std::string> exportCheckpoint(const ExportOptions &options, const std::string &ending,
                                     const std::string &checkpoint) {
  if (!options.like.empty())
    return exportLike(options, checkpoint);
  MT_ASSIGN(Descriptor stream, openStream(options.output));
  if (stream.valid()) // what has gone out cannot be taken back
    MT_TRY(verifyCheckpoint(checkpoint, true));
  MT_ASSIGN(const TrainedWeights trained, openTrained(options, checkpoint));
  if (ending == ".onnx" && !trained.adapters().empty() && !trained.isMerged())
    return fail("-o {}: {} has adapters, which the model has no place for: add them to its weights with --merge, or "
                "export them to .safetensors, or with --like FOLDER in PEFT's format",
                options.output, checkpoint);
  uint64_t dataBytes = 0;
  std::vector<InputFile> inputs = checkpointFiles(checkpoint);
  MT_TRY(keepInputs("-o", options.output, inputs));
  if (ending == ".onnx") {
    MT_ASSIGN(OnnxFile model, originalModel(options, checkpoint));
    inputs.push_back({"the model", model.file.path()});
    for (const std::string &location : model.locations)
      if (!location.empty()) // of generated values
        inputs.push_back({"the model's weights", folderOf(model.file.path()) + "/" + location});
    for (const std::string &file : {options.output, options.output + ".data"})
      MT_TRY(keepInputs("-o", file, inputs));
    MT_ASSIGN(dataBytes, exportOnnx(trained, model, options.output));
  } else {
    MT_TRY(ending == ".npz" ? exportNpz(trained, options.output) : exportSafetensors(trained, options.output));
  }
  std::error_code error;
  uintmax_t bytes = fs::file_size(options.output, error);
  std::string size = error ? "" : ", " + formatSize(bytes); // a pipe has none
  std::string beside = dataBytes ? fmt::format(" and {}.data, {}", options.output, formatSize(dataBytes)) : "";
  auto written = std::ranges::count_if(trained.tensors(), [&](const auto &named) { return ending == ".safetensors" || named.second.initializer; });
  size_t others = static_cast<size_t>(written) - trained.parameters();
  std::string names = others ? fmt::format(" and {} other names", others) : "";
  return fmt::format("{}: {} parameters{} of {}{}{}\n", options.output, trained.parameters(), names, checkpoint, size, beside);
}

} // namespace

Status exportWeights(const ExportOptions &options) {
  std::string ending = fs::path(options.output).extension().string();
  if (options.like.empty() && ending != ".onnx" && ending != ".safetensors" && ending != ".npz")
    return fail("-o {}: the ending says what to write: .onnx, .safetensors or .npz", options.output);
  std::string done;
  auto use = [&](const FoundCheckpoint &found) -> Status {
    MT_ASSIGN(done, exportCheckpoint(options, ending, found.folder));
    return Status();
  };
  MT_TRY(options.best ? withBest(options.from, use) : withNewest(options.from, use));
  return writeOut(done);
}

} // namespace mt::train
