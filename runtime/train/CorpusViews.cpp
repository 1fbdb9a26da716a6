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
  Status read(RowPlace place, std::span<std::byte *const> destinations) const override {
    size_t part = partOf(place.row);
    return parts[part]->read({place.row - begins[part], place.shift}, destinations);
  }
  std::string where(RowPlace place, size_t input, int64_t element) const override {
    size_t part = partOf(place.row);
    return parts[part]->where({place.row - begins[part], place.shift}, input, element);
  }
  std::optional<int64_t> filled(int64_t row) const override {
    const size_t part = partOf(row);
    return parts[part]->filled(row - begins[part]);
  }

private:
  size_t partOf(int64_t row) const {
    return static_cast<size_t>(std::upper_bound(begins.begin(), begins.end(), row) - begins.begin() - 1);
  }
  std::vector<SharedCorpus> parts;
  std::vector<int64_t> begins;
  int64_t total = 0;
};

/// Windows stay where they are: moved, they would reach into others that are of the other kind.
class Selection : public Corpus {
public:
  Selection(SharedCorpus whole, const RowSplit &split, bool heldBack)
      : whole(std::move(whole)), split(split), heldBack(heldBack) {
    for (int64_t row : this->whole->unlabelled)
      if (split.isHeldBack(row) == heldBack)
        unlabelled.push_back(split.indexOf(row));
  }
  int64_t rows() const override { return heldBack ? split.heldBack() : split.kept(); }
  Status read(RowPlace place, std::span<std::byte *const> destinations) const override {
    return whole->read(rowOf(place.row), destinations);
  }
  std::string where(RowPlace place, size_t input, int64_t element) const override {
    return whole->where(rowOf(place.row), input, element);
  }
  std::optional<int64_t> filled(int64_t row) const override { return whole->filled(rowOf(row)); }

private:
  int64_t rowOf(int64_t index) const { return heldBack ? split.heldBackRow(index) : split.keptRow(index); }
  SharedCorpus whole;
  RowSplit split;
  bool heldBack;
};

} // namespace

SharedCorpus heldBackOf(SharedCorpus corpus, const RowSplit &split) {
  return std::make_shared<Selection>(std::move(corpus), split, true);
}

SharedCorpus keptOf(SharedCorpus corpus, const RowSplit &split) {
  return std::make_shared<Selection>(std::move(corpus), split, false);
}

std::unique_ptr<Corpus> concatenate(std::vector<SharedCorpus> parts) {
  return std::make_unique<Concatenation>(std::move(parts));
}

} // namespace mt::train
