#include "runtime/train/TokenFolder.h"

#include "runtime/base/Json.h"
#include "runtime/train/Checksum.h"

#include <nlohmann/json.hpp>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>

namespace mt::train {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

// llm.c's header: 256 int32, of which magic, version and number of tokens. It says how wide tokens are.
constexpr uint64_t kHeaderBytes = 1024;
constexpr int32_t kMagic16 = 20240520, kVersion16 = 1, kMagic32 = 20240801, kVersion32 = 7;
constexpr uint64_t kMostTokens = INT32_MAX;

const char *typeName(int width) { return width == 2 ? "uint16" : "uint32"; }

} // namespace

TokenFolder::TokenFolder(std::string path, std::string aside, int width, uint64_t fileBytes)
    : path(std::move(path)), aside(std::move(aside)), width(width),
      tokensPerFile(std::min(kMostTokens, (fileBytes - kHeaderBytes) / static_cast<uint64_t>(width))) {}

TokenFolder::TokenFolder(TokenFolder &&other) noexcept
    : path(std::move(other.path)), aside(std::exchange(other.aside, "")), width(other.width),
      tokensPerFile(other.tokensPerFile), total(other.total), pending(std::move(other.pending)),
      written(std::move(other.written)) {}

TokenFolder::~TokenFolder() {
  std::error_code error;
  if (!aside.empty())
    fs::remove_all(aside, error);
}

Result<TokenFolder> TokenFolder::create(const std::string &given, int width, uint64_t fileBytes) {
  std::string path = given;
  while (path.size() > 1 && path.back() == '/')
    path.pop_back();
  std::error_code error;
  fs::file_status status = fs::status(path, error);
  if (fs::exists(status) && !fs::is_directory(status))
    return fail("{}: it is there, and no folder: name a new folder", path);
  if (fs::exists(status)) {
    fs::directory_iterator entries(path, error);
    if (error)
      return fail("{}: {}", path, error.message());
    if (entries != fs::directory_iterator())
      return fail("{}: the folder is not empty: name a new one, or remove what is in it", path);
  }
  MT_TRY(makeFolders(folderOf(path)));
  std::string aside = fmt::format("{}.tmp.{}", path, ::getpid());
  fs::remove_all(aside, error); // of a process of this number that was killed
  if (::mkdir(aside.c_str(), 0777) != 0)
    return fail("{}: {}", aside, std::strerror(errno));
  return TokenFolder(path, aside, width, fileBytes);
}

Status TokenFolder::write(std::span<const uint32_t> tokens) {
  for (uint32_t token : tokens) {
    if (pending.empty())
      pending.resize(kHeaderBytes);
    size_t at = pending.size();
    pending.resize(at + static_cast<size_t>(width));
    std::memcpy(pending.data() + at, &token, static_cast<size_t>(width)); // little-endian: the low bytes come first
    ++total;
    if ((pending.size() - kHeaderBytes) / static_cast<size_t>(width) == tokensPerFile)
      MT_TRY(finishFile());
  }
  return Status();
}

Status TokenFolder::finishFile() {
  uint64_t count = (pending.size() - kHeaderBytes) / static_cast<uint64_t>(width);
  const int32_t header[3] = {width == 2 ? kMagic16 : kMagic32, width == 2 ? kVersion16 : kVersion32,
                             static_cast<int32_t>(count)};
  std::memcpy(pending.data(), header, sizeof(header));
  std::string name = fmt::format("tokens-{:05}.bin", written.size());
  MT_TRY(writeFileAtomically(aside + "/" + name, pending));
  written.push_back({name, checksumText(checksumOf(pending)), count});
  pending.clear();
  return Status();
}

Status TokenFolder::commit(const Origin &origin) {
  if (!pending.empty() || written.empty()) {
    pending.resize(std::max<size_t>(pending.size(), kHeaderBytes));
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
  MT_TRY(writeFileAtomically(aside + "/" + kTokenIndex, index.dump(1) + "\n"));
  MT_TRY(renamePath(aside, path).status());
  aside.clear();
  return syncFolder(folderOf(path));
}

Status checkTokenIndex(const std::string &folder, const std::vector<std::string> &files) {
  const std::string path = (fs::path(folder) / kTokenIndex).string();
  MT_ASSIGN(std::optional<std::string> text, readFile(path));
  if (!text)
    return Status();
  Result<Json> index = parseOrderedJson(*text);
  if (!index)
    return fail("{}: not JSON: {}", path, index.status().message());
  if (!index->is_object() || index->value("format", Json()) != "mt tokens 1" ||
      !index->value("files", Json()).is_array())
    return fail("{}: not the index of a folder that mtrun tokenize made: move it away", path);
  const std::string remedy = "bring back what is missing, or tokenize again";
  const Json &listed = (*index)["files"];
  for (size_t i = 0; i < std::max(listed.size(), files.size()); ++i) {
    std::string want = i < listed.size() && listed[i].is_object() ? listed[i].value("name", "") : "";
    std::string have = i < files.size() ? fs::path(files[i]).filename().string() : "";
    if (want != have)
      return fail("{}: it lists {}, and the folder has {}: {}", path, want.empty() ? "no more files" : want,
                  have.empty() ? "no more" : have, remedy);
    std::error_code error;
    uint64_t size = fs::file_size(files[i], error);
    uint64_t wide = index->value("type", Json()) == "uint16" ? 2 : 4;
    Json tokens = listed[i].value("tokens", Json());
    if (!tokens.is_number_unsigned() || size != kHeaderBytes + wide * tokens.get<uint64_t>())
      return fail("{}: it says that {} has {} tokens, and the file has {} bytes: {}", path, have, tokens.dump(), size,
                  remedy);
  }
  return Status();
}

} // namespace mt::train
