#include "runtime/train/TokenFolder.h"

#include "runtime/base/Json.h"
#include "runtime/train/Checksum.h"
#include "runtime/train/TokenHeader.h"

#include <nlohmann/json.hpp>

#include <cstring>
#include <filesystem>

namespace mt::train {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr int32_t kVersion16 = 1, kVersion32 = 7;
constexpr uint64_t kMostTokens = INT32_MAX;

const char *typeName(int width) { return width == 2 ? "uint16" : "uint32"; }

} // namespace

TokenFolder::TokenFolder(AtomicFolder folder, int width, uint64_t fileBytes)
    : folder(std::move(folder)), width(width),
      tokensPerFile(std::min(kMostTokens, (fileBytes - kTokenHeaderBytes) / static_cast<uint64_t>(width))) {}

Result<TokenFolder> TokenFolder::create(const std::string &path, int width, uint64_t fileBytes) {
  MT_ASSIGN(AtomicFolder folder, AtomicFolder::create(path));
  return TokenFolder(std::move(folder), width, fileBytes);
}

Status TokenFolder::write(std::span<const uint32_t> tokens) {
  for (uint32_t token : tokens) {
    if (width == 2 && token > UINT16_MAX)
      return fail("token {} does not fit the {} of its file", token, typeName(width));
    if (pending.empty())
      pending.resize(kTokenHeaderBytes);
    size_t at = pending.size();
    pending.resize(at + static_cast<size_t>(width));
    std::memcpy(pending.data() + at, &token, static_cast<size_t>(width)); // little-endian: the low bytes come first
    ++total;
    if ((pending.size() - kTokenHeaderBytes) / static_cast<size_t>(width) == tokensPerFile)
      MT_TRY(finishFile());
  }
  return Status();
}

Status TokenFolder::finishFile() {
  uint64_t count = (pending.size() - kTokenHeaderBytes) / static_cast<uint64_t>(width);
  const int32_t header[3] = {width == 2 ? kMagic16 : kMagic32, width == 2 ? kVersion16 : kVersion32,
                             static_cast<int32_t>(count)};
  std::memcpy(pending.data(), header, sizeof(header));
  std::string name = fmt::format("tokens-{:05}.bin", written.size());
  MT_TRY(writeFileAtomically(folder.file(name), pending));
  written.push_back({name, checksumText(checksumOf(pending)), count});
  pending.clear();
  return Status();
}

Status TokenFolder::commit(const Origin &origin) {
  if (!pending.empty() || written.empty()) {
    pending.resize(std::max<size_t>(pending.size(), kTokenHeaderBytes));
    MT_TRY(finishFile());
  }
  Json files = Json::array();
  std::string digests;
  for (const File &file : written) {
    files.push_back(Json{{"name", file.name}, {"tokens", file.tokens}, {"digest", file.digest}});
    digests += file.digest;
  }
  Json end = origin.end ? Json(*origin.end) : Json(nullptr);
  Json index{{"format", "mt tokens 1"},
             {"type", typeName(width)},
             {"tokens", total},
             {"documents", origin.documents},
             {"tokenizer", {{"vocabulary", origin.vocabulary}, {"end", end}, {"digest", origin.tokenizerDigest}}},
             {"digest", checksumText(checksumOf(std::as_bytes(std::span(digests))))},
             {"files", files}};
  MT_TRY(writeFileAtomically(folder.file(kTokenIndex), index.dump(1) + "\n"));
  return folder.commit();
}

Result<std::optional<uint32_t>> readTokenIndex(const std::string &folder, const std::vector<std::string> &files) {
  const std::string path = (fs::path(folder) / kTokenIndex).string();
  MT_ASSIGN(std::optional<std::string> text, readFile(path));
  if (!text)
    return std::optional<uint32_t>();
  Result<Json> index = parseOrderedJson(*text);
  if (!index)
    return fail("{}: not JSON: {}", path, index.status().message());
  if (!index->is_object() || index->value("format", Json()) != "mt tokens 1" ||
      !index->value("files", Json()).is_array())
    return fail("{}: not the index of a folder that mtrun tokenize made: move it away", path);
  const std::string remedy = "bring back what is missing, or tokenize again";
  const Json &listed = (*index)["files"];
  for (size_t i = 0; i < std::max(listed.size(), files.size()); ++i) {
    const Json name = i < listed.size() && listed[i].is_object() ? listed[i].value("name", Json()) : Json();
    const std::string want = name.is_string() ? name.get<std::string>() : "",
                      have = i < files.size() ? fs::path(files[i]).filename().string() : "";
    if (want != have || have.empty())
      return fail("{}: it lists {}, and the folder has {}: {}", path, want.empty() ? "no more files" : want,
                  have.empty() ? "no more" : have, remedy);
    std::error_code error;
    uint64_t size = fs::file_size(files[i], error);
    uint64_t wide = index->value("type", Json()) == "uint16" ? 2 : 4;
    Json tokens = listed[i].value("tokens", Json());
    if (!tokens.is_number_unsigned() || size != kTokenHeaderBytes + wide * tokens.get<uint64_t>())
      return fail("{}: it says that {} has {} tokens, and the file has {} bytes: {}", path, have, tokens.dump(), size,
                  remedy);
  }
  const Json tokenizer = index->value("tokenizer", Json());
  const Json end = tokenizer.is_object() ? tokenizer.value("end", Json()) : Json();
  if (!end.is_number_unsigned() || end.get<uint64_t>() > std::numeric_limits<uint32_t>::max())
    return std::optional<uint32_t>();
  return std::optional<uint32_t>(end.get<uint32_t>());
}

} // namespace mt::train
