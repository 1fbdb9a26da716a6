#include "runtime/train/CorpusViews.h"

#include <algorithm>

namespace mt::train {
namespace {

class Concatenation : public Corpus {
public:
  explicit Concatenation(std::vector<SharedCorpus> all) : parts(std::move(all)) {
    for (const SharedCorpus &part : parts) {
      begins.push_back(total);
      for (int64_t row : part->unlabelled)
        unlabelled.push_back(total + row);
      total += part->rows();
    }
  }
  int64_t rows() const override { return total; }
  Status read(int64_t row, std::span<std::byte *const> destinations) const override {
    size_t part = partOf(row);
    return parts[part]->read(row - begins[part], destinations);
  }
  std::string where(int64_t row, size_t input, int64_t element) const override {
    size_t part = partOf(row);
    return parts[part]->where(row - begins[part], input, element);
  }

private:
  size_t partOf(int64_t row) const {
    return static_cast<size_t>(std::upper_bound(begins.begin(), begins.end(), row) - begins.begin() - 1);
  }
  std::vector<SharedCorpus> parts;
  std::vector<int64_t> begins;
  int64_t total = 0;
};

} // namespace

std::unique_ptr<Corpus> concatenate(std::vector<SharedCorpus> parts) {
  return std::make_unique<Concatenation>(std::move(parts));
}

} // namespace mt::train
