#include "compiler/onnx/ExternalData.h"

#include "third_party/onnx/onnx-ml.pb.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>

namespace mt::onnx {
namespace {
namespace fs = std::filesystem;

std::optional<std::string> entry(const ::onnx::TensorProto &tensor, const std::string &key) {
  for (const auto &pair : tensor.external_data())
    if (pair.key() == key)
      return pair.value();
  return std::nullopt;
}

template <typename T>
Status readNumber(const ::onnx::TensorProto &tensor, const std::string &key, T &number) {
  std::optional<std::string> text = entry(tensor, key);
  if (!text)
    return {};
  auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), number);
  if (error != std::errc() || end != text->data() + text->size())
    return fail("its external data entry '{}' is '{}', which is no number", key, *text);
  return {};
}

// Where links of a folder may lead: into itself; of a revision in the hub's cache, MODEL/snapshots/REVISION, whose
// files are links to MODEL/blobs/HASH, into MODEL.
fs::path reachOfLinks(const fs::path &folder) {
  std::error_code error;
  const fs::path model = folder.parent_path().parent_path();
  return folder.parent_path().filename() == "snapshots" && fs::is_directory(model / "blobs", error) ? model : folder;
}

// The file that `location` names, inside the model's folder also after links are followed.
Result<std::string> insideFolder(const std::string &location, const std::string &folder) {
  fs::path relative(location);
  if (location.empty() || relative.is_absolute())
    return fail("its external data path '{}' must be relative to the model's folder", location);
  if (std::find(relative.begin(), relative.end(), "..") != relative.end())
    return fail("its external data path '{}' leaves the model's folder; '..' is not allowed", location);
  std::error_code error;
  fs::path root = fs::canonical(folder, error);
  if (error)
    return fail("the model's folder {} cannot be read: {}", folder, error.message());
  fs::path file = fs::canonical(root / relative, error);
  if (error)
    return fail("its external data file {} is missing: put it beside the model", (root / relative).string());
  fs::path reach = reachOfLinks(root);
  auto [reachEnd, fileAt] = std::mismatch(reach.begin(), reach.end(), file.begin(), file.end());
  if (reachEnd != reach.end())
    return fail("its external data file {} is a link out of the model's folder{}", (root / relative).string(),
                reach == root ? "" : " in the cache, " + reach.string());
  if (!fs::is_regular_file(file, error))
    return fail("its external data path {} is not a file", file.string());
  return file.string();
}

} // namespace

Result<GeneratorSpec> generatorOf(const ::onnx::TensorProto &tensor) {
  GeneratorSpec spec;
  spec.kind = entry(tensor, "mt.generator").value_or("");
  if (spec.kind.empty())
    return spec;
  if (spec.kind != "normal" && spec.kind != "zeros" && spec.kind != "ones" && spec.kind != "constant")
    return fail("its generator '{}' is unknown: normal, zeros, ones or constant", spec.kind);
  MT_TRY(readNumber(tensor, "mt.seed", spec.seed));
  MT_TRY(readNumber(tensor, "mt.deviation", spec.deviation));
  MT_TRY(readNumber(tensor, "mt.value", spec.value));
  return spec;
}

Result<FileRange> externalRange(const ::onnx::TensorProto &tensor, const std::string &folder, uint64_t bytes) {
  FileRange range;
  MT_ASSIGN(range.path, insideFolder(entry(tensor, "location").value_or(""), folder));
  range.length = bytes;
  MT_TRY(readNumber(tensor, "offset", range.offset));
  MT_TRY(readNumber(tensor, "length", range.length));
  if (range.length != bytes)
    return fail("its external data has {} bytes where its shape needs {}", range.length, bytes);
  uint64_t size = fs::file_size(range.path);
  if (range.offset > size || range.length > size - range.offset)
    return fail("its external data ends at byte {} of {}, which has only {} bytes: is the download complete?",
                range.offset + range.length, range.path, size);
  return range;
}

} // namespace mt::onnx
