#include "runtime/train/Packs.h"

#include "runtime/train/CorpusForms.h"
#include "runtime/train/Elements.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>

namespace mt::train {
namespace {

constexpr int64_t kBlockSamples = 4096; ///< share rows among each other

struct Sample {
  int64_t row, length;
};

/// Samples to rows of `sequence` places: longest first, each into the row that it leaves the least room in, or a new
/// one (best-fit decreasing: Johnson et al., Worst-Case Performance Bounds for Simple One-Dimensional Packing
/// Algorithms, 1974). Rows are in the order of their first samples.
std::vector<std::vector<Sample>> fitted(std::vector<Sample> block, int64_t sequence) {
  std::ranges::stable_sort(block, std::greater(), &Sample::length);
  std::vector<std::vector<Sample>> rows;
  std::multimap<int64_t, size_t> room; // rows by what is left in them; of equals the oldest is taken
  for (const Sample &sample : block) {
    auto at = room.lower_bound(sample.length);
    const int64_t left = (at == room.end() ? sequence : at->first) - sample.length;
    const size_t row = at == room.end() ? rows.size() : at->second;
    if (at != room.end())
      room.erase(at);
    else
      rows.emplace_back();
    rows[row].push_back(sample);
    room.emplace(left, row);
  }
  for (std::vector<Sample> &row : rows)
    std::ranges::sort(row, {}, &Sample::row);
  std::ranges::sort(rows, {}, [](const std::vector<Sample> &row) { return row.front().row; });
  return rows;
}

class PackCorpus : public Corpus {
public:
  PackCorpus(SharedCorpus samples, const plan::Plan &plan, size_t tokens, size_t labels)
      : samples(std::move(samples)), plan(plan), labels(labels), sequence(plan.inputs[tokens].dims[1]),
        shift(labelShift(plan.inputs[labels])) {}

  /// Samples that fill nothing are left out.
  void pack(Packing &packing) {
    std::vector<Sample> block;
    for (int64_t row = 0; row < samples->rows(); ++row) {
      const int64_t length = *samples->filled(row);
      if (length > 0)
        block.push_back({row, length});
      if (static_cast<int64_t>(block.size()) == kBlockSamples || row + 1 == samples->rows())
        for (const std::vector<Sample> &pack : fitted(std::exchange(block, {}), sequence))
          append(pack);
    }
    packing.samples += static_cast<int64_t>(members.size());
    packing.rows += rows();
    for (const Sample &sample : members)
      packing.filled += sample.length;
  }

  int64_t rows() const override { return static_cast<int64_t>(begins.size()) - 1; }

  Status read(RowPlace place, std::span<std::byte *const> destinations) const override {
    for (size_t n = 0; n < plan.inputs.size(); ++n)
      if (destinations[n])
        padRow(plan.inputs[n], destinations[n], 0);
    RowBuffer sample(plan);
    int64_t at = 0, number = 0;
    for (const Sample &member : of(place.row)) {
      MT_TRY(samples->read(member.row, sample.destinations));
      for (size_t n = 0; n < plan.inputs.size(); ++n)
        if (destinations[n] && saysPlaces(plan, plan.inputs[n]))
          putPlaces(plan.inputs[n], destinations[n], at, member.length, number + 1);
        else if (destinations[n])
          copy(n, sample.destinations[n], destinations[n], at, member.length);
      at += member.length;
      ++number;
    }
    return Status();
  }

  std::string where(RowPlace place, size_t input, int64_t element) const override {
    int64_t at = 0;
    const std::span<const Sample> pack = of(place.row);
    for (const Sample &member : pack.first(pack.size() - 1)) {
      if (element < at + member.length)
        return samples->where(member.row, input, element - at);
      at += member.length;
    }
    return samples->where(pack.back().row, input, element - at);
  }

private:
  SharedCorpus samples;
  const plan::Plan &plan;
  size_t labels;
  int64_t sequence, shift;
  std::vector<Sample> members;      ///< row after row
  std::vector<size_t> begins = {0}; ///< of rows, and the end of the last

  std::span<const Sample> of(int64_t row) const {
    const size_t begin = begins[static_cast<size_t>(row)];
    return std::span(members).subspan(begin, begins[static_cast<size_t>(row) + 1] - begin);
  }

  void append(const std::vector<Sample> &pack) {
    auto counts = [&](const Sample &sample) { return !std::ranges::binary_search(samples->unlabelled, sample.row); };
    if (std::ranges::none_of(pack, counts))
      unlabelled.push_back(rows());
    members.insert(members.end(), pack.begin(), pack.end());
    begins.push_back(members.size());
  }

  /// The first label of a sample is no target where the model takes the target of a token from the next one's place.
  void copy(size_t input, const std::byte *from, std::byte *to, int64_t at, int64_t length) const {
    const auto size = static_cast<int64_t>(byteSize(plan.inputs[input].type));
    const int64_t skipped = input == labels ? std::min(shift, length) : 0;
    std::memcpy(to + (at + skipped) * size, from + skipped * size, static_cast<size_t>((length - skipped) * size));
  }
};

/// Windows of a stream, each document in them apart.
class ApartCorpus : public Corpus {
public:
  ApartCorpus(SharedCorpus windows, const plan::Plan &plan, size_t tokens, size_t labels)
      : windows(std::move(windows)), plan(plan), tokens(tokens), labels(labels), end(*this->windows->documentEnd()),
        sequence(plan.inputs[tokens].dims[1]), shift(labelShift(plan.inputs[labels])) {}

  int64_t rows() const override { return windows->rows(); }

  Status read(RowPlace place, std::span<std::byte *const> destinations) const override {
    MT_TRY(windows->read(place, destinations));
    int64_t begin = 0, number = 1;
    for (int64_t at = 0; at < sequence; ++at) {
      const bool isEnd = integerAt(plan.inputs[tokens].type, destinations[tokens], at) == end;
      if (isEnd && at + shift < sequence)
        putIgnored(destinations[labels], at + shift);
      if (!isEnd && at + 1 < sequence)
        continue;
      for (size_t n = 0; n < plan.inputs.size(); ++n)
        if (destinations[n] && saysPlaces(plan, plan.inputs[n]))
          putPlaces(plan.inputs[n], destinations[n], begin, at + 1 - begin, number);
      begin = at + 1, ++number;
    }
    return Status();
  }

  std::string where(RowPlace place, size_t input, int64_t element) const override {
    return windows->where(place, input, element);
  }

private:
  SharedCorpus windows;
  const plan::Plan &plan;
  size_t tokens, labels;
  int64_t end, sequence, shift;

  void putIgnored(std::byte *row, int64_t at) const {
    const auto size = static_cast<int64_t>(byteSize(plan.inputs[labels].type));
    std::memcpy(row + at * size, &kIgnored, static_cast<size_t>(size)); // little-endian: the low bytes come first
  }
};

} // namespace

Result<SharedCorpus> packed(SharedCorpus samples, const std::string &name, const plan::Plan &plan, Packing &packing) {
  const bool isStream = samples->documentEnd().has_value();
  if (samples->rows() == 0 || (!isStream && !samples->filled(0)))
    return packing.mixed += samples->rows(), samples; // a corpus is of one form
  MT_ASSIGN(const size_t tokens, tokenInput(plan, name, true));
  const std::optional<size_t> labels = labelInput(plan);
  if (std::ranges::none_of(plan.inputs, isSegments))
    return fail(
        "--pack: the plan has no input 'segment_ids', by which the model keeps samples of a row apart: compile the "
        "checkpoint folder with mtc compile --pack, or export the model with such an input");
  if (!labels || labelShift(plan.inputs[*labels]) > 1)
    return fail("--pack: the model has no target for each token ({})", describeInputs(plan));
  for (const plan::Input &input : plan.inputs)
    if (input.isOfData() && input.dims != plan.inputs[tokens].dims)
      return fail("--pack: '{}' {} says nothing of single tokens, and samples that share a row cannot share it",
                  input.name, text(input.dims));
  MT_TRY(checkPadding(plan.inputs[*labels], 0).within(name));
  if (isStream) {
    packing.windows += samples->rows();
    auto apart = std::make_shared<ApartCorpus>(std::move(samples), plan, tokens, *labels);
    MT_ASSIGN(apart->unlabelled, unlabelledRows(*apart, plan));
    return SharedCorpus(std::move(apart));
  }
  auto packs = std::make_shared<PackCorpus>(std::move(samples), plan, tokens, *labels);
  packs->pack(packing);
  if (packs->rows() == 0)
    return fail("{}: no sample has a token", name);
  return SharedCorpus(std::move(packs));
}

} // namespace mt::train
