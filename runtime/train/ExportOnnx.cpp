#include "runtime/train/ExportOnnx.h"

#include "runtime/base/AtomicFile.h"
#include "runtime/host/Generator.h"

#include <algorithm>
#include <charconv>
#include <filesystem>

namespace mt::train {
namespace {

namespace fs = std::filesystem;

constexpr int kModelGraph = 7, kGraphInitializer = 5;
constexpr uint64_t kAlignment = 64;

using TakeFloats = std::function<Status(std::span<const float>)>;

template <typename T> T numberOf(const Initializer &tensor, const std::string &key, T otherwise) {
  auto at = tensor.externalData.find(key);
  if (at == tensor.externalData.end())
    return otherwise;
  T value = otherwise;
  std::from_chars(at->second.data(), at->second.data() + at->second.size(), value);
  return value;
}

/// Writes 32-bit values as elements of another type.
TakeFloats writeAs(AtomicFile &file, DType type) {
  return [&file, type](std::span<const float> values) -> Status {
    std::vector<std::byte> converted(values.size() * byteSize(type));
    const auto *from = reinterpret_cast<const std::byte *>(values.data());
    MT_TRY(convert(DType::f32, from, type, converted.data(), static_cast<int64_t>(values.size())));
    return file.write(converted);
  };
}

/// The values of a generated tensor that was not trained, in pieces.
Status generate(const Initializer &tensor, int64_t count, const TakeFloats &take) {
  constexpr int64_t kPiece = 1 << 16;
  const host::Generator generator = {
      tensor.externalData.at("mt.generator"), host::generatorKey(tensor.name, numberOf<uint64_t>(tensor, "mt.seed", 0)),
      numberOf<double>(tensor, "mt.value", 0), numberOf<double>(tensor, "mt.deviation", 0)};
  std::vector<float> piece;
  for (int64_t at = 0; at < count; at += kPiece) {
    piece.resize(static_cast<size_t>(std::min(kPiece, count - at)));
    if (!host::generate(generator, static_cast<uint64_t>(at), piece))
      return fail("'{}' is made by '{}', which is no generator", tensor.name, generator.kind);
    MT_TRY(take(piece));
  }
  return Status();
}

class Exporter {
public:
  Exporter(const TrainedWeights &trained, const OnnxFile &model, std::string output)
      : trained(trained), model(model), output(std::move(output)) {}

  Result<uint64_t> run() {
    MT_TRY(checkParameters());
    if (!model.nested.empty() ||
        std::ranges::any_of(model.initializers, [&](const Initializer &tensor) { return isMoved(tensor); })) {
      MT_ASSIGN(AtomicFile file, AtomicFile::create(output + ".data"));
      data.emplace(std::move(file));
    }
    MT_TRY(moveValues());
    MT_ASSIGN(AtomicFile file, AtomicFile::create(output));
    if (data && !file.isFile())
      return fail("-o {}: the model's values go into a second file beside it: name a file, no device or pipe", output);
    MT_TRY(writeModel(file));
    if (!data) {
      MT_TRY(file.commit());
      return 0;
    }
    MT_TRY(AtomicFile::commit(*data, file));
    return data->written();
  }

private:
  /// Whether the values go to the .data file.
  bool isMoved(const Initializer &tensor) const {
    return tensor.external || (trained.initializer(tensor.name) && tensor.raw.size() == 0);
  }

  Status checkParameters() const {
    std::map<std::string_view, const Initializer *> byName;
    for (const Initializer &tensor : model.initializers)
      byName[tensor.name] = &tensor;
    for (const auto &[name, named] : trained.tensors()) {
      if (!named.initializer)
        continue;
      auto found = byName.find(name);
      if (found == byName.end())
        return fail("{}: it has no parameter '{}': give the model that was trained with --model or, where that is a "
                    "constant of "
                    "a node, export to .safetensors",
                    model.file.path(), name);
      const Initializer &tensor = *found->second;
      if (tensor.dims != named.dims || !tensor.type || !isFloat(*tensor.type))
        return fail("{}: parameter '{}' is {} there and {} in the checkpoint: give the model that was trained with "
                    "--model",
                    model.file.path(), name, text(tensor.dims), text(named.dims));
    }
    return Status();
  }

  /// Writes the .data file and notes the fields that refer to it.
  Status moveValues() {
    for (const Initializer &tensor : model.initializers) {
      if (!isMoved(tensor))
        continue;
      MT_ASSIGN(std::string text, moved(tensor, trained.initializer(tensor.name)));
      edits[tensor.field.begin] = {tensor.field.end, wireField(kGraphInitializer, text)};
    }
    for (const NestedTensors &nested : model.nested) {
      MT_ASSIGN(std::string text,
                model.withMoved(nested, [&](const Initializer &tensor) { return moved(tensor, nullptr); }));
      edits[nested.field.begin] = {nested.field.end, text};
    }
    return Status();
  }

  /// Writes a tensor's values to the .data file; the TensorProto that refers to them.
  Result<std::string> moved(const Initializer &tensor, const TrainedWeights::Named *named) {
    static constexpr std::byte kZeros[kAlignment] = {};
    MT_TRY(data->write(std::span(kZeros, (kAlignment - data->written() % kAlignment) % kAlignment)));
    uint64_t begin = data->written();
    MT_TRY(named ? trained.read(
                       *named, [&] { return valuesOf(tensor); }, writeAs(*data, *tensor.type))
                 : copyExternal(tensor));
    return externalTensor(tensor, fs::path(output).filename().string() + ".data", begin, data->written() - begin);
  }

  Status copyExternal(const Initializer &tensor) {
    std::optional<int64_t> count = elementCount(tensor.dims);
    if (!count || !tensor.type)
      return fail("{}: '{}' has a type or shape that cannot be copied", model.file.path(), tensor.name);
    if (tensor.externalData.contains("mt.generator"))
      return generate(tensor, *count, writeAs(*data, *tensor.type));
    return withExternal(tensor, [&](std::span<const std::byte> values) { return data->write(values); });
  }

  /// The bytes of external data, as they are stored.
  Status withExternal(const Initializer &tensor, const std::function<Status(std::span<const std::byte>)> &take) const {
    fs::path location = fs::path(tensor.entry("location")).lexically_normal();
    if (location.empty() || location.is_absolute() || *location.begin() == "..")
      return fail("{}: '{}' has its values in '{}', outside the model's folder", model.file.path(), tensor.name,
                  location.string());
    MT_ASSIGN(MappedFile file, MappedFile::open((fs::path(model.file.path()).parent_path() / location).string()));
    uint64_t bytes = static_cast<uint64_t>(elementCount(tensor.dims).value_or(0)) * byteSize(*tensor.type);
    MT_ASSIGN(std::span<const std::byte> values, file.view(numberOf<uint64_t>(tensor, "offset", 0), bytes));
    return take(values);
  }

  /// What a tensor of the model is, as floats. checkParameters() has seen its type and shape.
  Result<std::vector<float>> valuesOf(const Initializer &tensor) const {
    std::vector<float> values;
    if (tensor.externalData.contains("mt.generator")) {
      MT_TRY(generate(tensor, *elementCount(tensor.dims), [&](std::span<const float> piece) {
        values.insert(values.end(), piece.begin(), piece.end());
        return Status();
      }));
    } else if (tensor.external) {
      MT_TRY(withExternal(tensor, [&](std::span<const std::byte> bytes) -> Status {
        MT_ASSIGN(values, floatsOf(*tensor.type, bytes));
        return Status();
      }));
    } else if (tensor.raw.size() > 0) {
      MT_ASSIGN(values, floatsOf(*tensor.type, model.file.bytes().subspan(tensor.raw.begin, tensor.raw.size())));
    } else {
      return fail("{}: '{}' has its values in single fields, which an adapter cannot be added to: write it with raw or "
                  "external data",
                  model.file.path(), tensor.name);
    }
    return values;
  }

  /// The model's bytes with moved tensors' fields replaced, and trained values where they are.
  Status writeModel(AtomicFile &file) {
    uint64_t graphBytes = model.graph.size();
    for (const auto &[begin, edit] : edits)
      if (begin >= model.graph.begin && edit.end <= model.graph.end)
        graphBytes += edit.text.size() - (edit.end - begin);
    edits[model.graphField.begin] = {model.graph.begin, wireVarint(kModelGraph << 3 | 2) + wireVarint(graphBytes)};
    for (const Initializer &tensor : model.initializers)
      if (trained.initializer(tensor.name) && !isMoved(tensor))
        edits[tensor.raw.begin] = {tensor.raw.end, "", &tensor};

    std::span<const std::byte> bytes = model.file.bytes();
    uint64_t at = 0;
    for (const auto &[begin, edit] : edits) {
      MT_TRY(file.write(bytes.subspan(at, begin - at)));
      MT_TRY(edit.trained ? trained.read(
                                *trained.initializer(edit.trained->name), [&] { return valuesOf(*edit.trained); },
                                writeAs(file, *edit.trained->type))
                          : file.write(std::as_bytes(std::span(edit.text))));
      at = edit.end;
    }
    return file.write(bytes.subspan(at));
  }

  /// What is written in place of the model's bytes up to `end`: text, or a tensor's trained values, which take as many.
  struct Edit {
    uint64_t end = 0;
    std::string text;
    const Initializer *trained = nullptr;
  };

  const TrainedWeights &trained;
  const OnnxFile &model;
  std::string output;
  std::optional<AtomicFile> data;
  std::map<uint64_t, Edit> edits; ///< by where they begin
};

} // namespace

Result<uint64_t> exportOnnx(const TrainedWeights &trained, const OnnxFile &model, const std::string &output) {
  return Exporter(trained, model, output).run();
}

} // namespace mt::train
