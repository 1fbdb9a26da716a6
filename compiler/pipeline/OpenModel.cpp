#include "compiler/pipeline/OpenModel.h"

#include "compiler/onnx/BindDimensions.h"
#include "compiler/onnx/ModelFile.h"
#include "models/FromHf.h"

#include <filesystem>

namespace mt::pipeline {
namespace {
namespace fs = std::filesystem;

constexpr int64_t kOpset = 23; ///< attention, norms and rotary positions are single nodes

bool isFolder(const std::string &path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

Result<onnx::ModelFile> open(const std::string &path, bool packed) {
  const fs::path file(path);
  if (!isFolder(path) && (file.extension() == ".safetensors" || file.extension() == ".json"))
    return fail("{}: is a file of a checkpoint; name the folder that it is in", path);
  if (!isFolder(path) && packed)
    return fail(
        "{}: --pack is for checkpoint folders; a model in ONNX has what it takes if it is exported with an input "
        "segment_ids that its attention goes by",
        path);
  if (!isFolder(path))
    return onnx::ModelFile::open(path);
  const std::string folder = modelPath(path);
  MT_ASSIGN(models::CheckpointGraph graph, models::importCheckpoint(folder, folder + "/model.onnx", kOpset, packed));
  MT_ASSIGN(onnx::ModelFile opened, onnx::ModelFile::ofFolder(folder, graph.model));
  opened.warnings = std::move(graph.warnings);
  return opened;
}

} // namespace

llvm::FailureOr<onnx::ImportedModel> importModel(mlir::MLIRContext &context, const std::string &path, bool packed,
                                                 const onnx::ImportOptions &options, onnx::Problems &problems) {
  Result<onnx::ModelFile> file = open(path, packed);
  if (file)
    return onnx::importOnnx(context, *file, path, options, problems);
  problems.push_back(file.status().message());
  return mlir::failure();
}

std::optional<int64_t> fixedBatch(const std::string &path, const onnx::ImportOptions &options) {
  const Result<onnx::ModelFile> file = isFolder(path) ? fail("it is a folder") : onnx::ModelFile::open(path);
  onnx::Problems ignored;
  return file ? onnx::bindDimensions(file->model.graph(), options, ignored).fixedBatch : std::nullopt;
}

std::string modelPath(const std::string &path) {
  const fs::path whole = fs::absolute(path).lexically_normal();
  return (whole.has_filename() ? whole : whole.parent_path()).string();
}

std::string modelName(const std::string &path) {
  const fs::path whole = modelPath(path), cache = whole.parent_path().parent_path().filename();
  if (!isFolder(path))
    return whole.stem().string();
  if (whole.parent_path().filename() == "snapshots" && cache.string().starts_with("models--"))
    return cache.string().substr(cache.string().rfind("--") + 2);
  return whole.filename().string();
}

} // namespace mt::pipeline
