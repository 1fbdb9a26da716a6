// A folder for a test's files, removed with it, and small plans to give data to.
#ifndef MT_TESTS_TRAIN_TESTFILES_H
#define MT_TESTS_TRAIN_TESTFILES_H

#include "runtime/plan/Program.h"
#include "runtime/train/Npz.h"
#include "runtime/train/RunFolder.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

namespace mt::tests {

class Folder {
public:
  Folder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "mt-train-XXXXXX").string();
    path = mkdtemp(pattern.data());
  }
  ~Folder() {
    std::error_code error;
    std::filesystem::remove_all(path, error);
  }
  Folder(const Folder &) = delete;

  std::string operator/(const std::string &name) const { return path + "/" + name; }
  std::string write(const std::string &name, std::string_view content) const {
    std::ofstream(*this / name, std::ios::binary).write(content.data(), static_cast<std::streamsize>(content.size()));
    return *this / name;
  }
  std::string path;
};

inline std::string readFile(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

template <typename T> std::span<const std::byte> bytesOf(const std::vector<T> &values) {
  return std::as_bytes(std::span(values));
}

/// Inputs of a language model: input_ids and labels of [batch, sequence], vocabulary 256, and the scalars.
inline plan::Plan languagePlan(int64_t batch, int64_t sequence, int64_t microBatch) {
  plan::Plan plan;
  plan.settings.batch = batch;
  plan.settings.microBatch = microBatch;
  plan.settings.sequence = sequence;
  plan.model.vocabulary = 256;
  auto partBytes = static_cast<uint64_t>(microBatch * sequence * 8);
  std::vector<plan::Span> parts(static_cast<size_t>(batch / microBatch), {0, 0, partBytes});
  using kernels::DType;
  plan.inputs = {{plan::InputKind::data, "input_ids", DType::i64, {batch, sequence}, parts, 256},
                 {plan::InputKind::labels, "labels", DType::i64, {batch, sequence}, parts, 256},
                 {plan::InputKind::scalars, "scalars", DType::f64, {1, 16}, {{0, 0, 128}}, 0}};
  return plan;
}

/// The newest whole checkpoint of a folder, or the folder itself if it is one; nothing if there is none.
inline std::optional<std::string> newestCheckpoint(const std::string &path) {
  Result<std::vector<train::FoundCheckpoint>> found = train::checkpointsOf(path);
  return found && found->front().whole ? std::optional(found->front().folder) : std::nullopt;
}

#define EXPECT_ERROR(status, part)                                                                                     \
  EXPECT_NE((status).message().find(part), std::string::npos) << "message: " << (status).message()

} // namespace mt::tests
#endif
