#include "runtime/train/TrainData.h"

#include "runtime/train/Batches.h"
#include "runtime/train/DataFingerprint.h"
#include "runtime/train/Packs.h"

#include <fmt/ranges.h>

#include <algorithm>

namespace mt::train {
namespace {

struct NamedPath {
  std::string flag, path;
  bool isText = false;
};

/// A tokenizer is for text, and without one text is no tokens of it.
Status lookForText(std::vector<NamedPath> &all, const std::string &tokenizer) {
  for (NamedPath &each : all) {
    MT_ASSIGN(each.isText, isText(each.path, !tokenizer.empty(), each.flag));
  }
  const NamedPath &first = all.front();
  for (const NamedPath &each : all)
    if (tokenizer.empty() && each.isText != first.isText)
      return fail("{} {}: one of it and {} {} is text and the other is not, and bytes are no tokens of it: say which "
                  "--tokenizer",
                  each.flag, each.path, first.flag, first.path);
  return Status();
}

Status openInto(OpenedData &opened, const std::vector<NamedPath> &all, const std::string &flag,
                const std::string &tokenizer, const plan::Plan &plan) {
  const bool anyText = std::ranges::any_of(all, &NamedPath::isText);
  std::vector<std::string> fingerprints;
  for (const NamedPath &each : all) {
    if (each.flag != flag)
      continue;
    const std::string own = each.isText || !anyText ? tokenizer : "";
    MT_ASSIGN(SharedCorpus corpus, openCorpus(each.path, own, plan));
    opened.parts.push_back(std::move(corpus));
    MT_ASSIGN(std::string fingerprint, dataFingerprint(each.path, own));
    fingerprints.push_back(std::move(fingerprint));
    opened.paths.push_back(each.path);
  }
  opened.name = fmt::format("{} {}", flag, fmt::join(opened.paths, ", "));
  opened.fingerprint = fingerprints.empty() ? "" : joinFingerprints(fingerprints);
  return Status();
}

bool canShare(const SharedCorpus &corpus) {
  return corpus->rows() > 0 && (corpus->filled(0) || corpus->documentEnd());
}

/// The name of a mixture, as it could be said again.
std::string weighted(const std::vector<std::string> &paths, const std::vector<double> &weights) {
  std::string name;
  for (size_t i = 0; i < paths.size(); ++i)
    name += fmt::format("{}--data {}:{}", i == 0 ? "" : " ", paths[i], weights[i]);
  return name;
}

/// Takes the rows that are held back out of each of the parts; the result is those of each.
Result<std::vector<SharedCorpus>> holdBack(std::vector<SharedCorpus> &parts, const std::vector<std::string> &names,
                                           const RecipeOptions &recipe) {
  std::vector<SharedCorpus> all;
  if (*recipe.evalSplit >= 1)
    return fail("--eval-split {}: a share is below 1", *recipe.evalSplit);
  for (size_t i = 0; i < parts.size(); ++i) {
    const RowSplit split(parts[i]->rows(), *recipe.evalSplit, *recipe.seed);
    if (split.heldBack() < 1 || split.kept() < 1)
      return fail(
          "--eval-split {}: of the {} rows of {} {} would be held back and {} trained on, and either takes one at "
          "least: give more data, or choose another share",
          *recipe.evalSplit, parts[i]->rows(), names[i], split.heldBack(), split.kept());
    all.push_back(heldBackOf(parts[i], split));
    parts[i] = keptOf(parts[i], split);
  }
  return all;
}

} // namespace

Result<std::string> packAll(std::vector<SharedCorpus> &parts, const std::string &name, const plan::Plan &plan) {
  Packing packing;
  for (SharedCorpus &part : parts) {
    MT_ASSIGN(part, packed(part, name, plan, packing));
  }
  if (packing.rows == 0 && packing.windows == 0)
    return fail(
        "--pack: {} has no samples that are shorter than a row, and no documents that a token ends, as text has by a "
        "tokenizer and tokens by the index.json of mtrun tokenize; leave it out",
        name);
  std::string windows =
      packing.windows > 0 ? fmt::format("{}: {} windows, documents in them apart", name, packing.windows) : "";
  if (packing.mixed > 0)
    windows += fmt::format("{}{}: {} rows stay as they are, for nothing says where a document ends in them",
                           windows.empty() ? "" : "\n", name, packing.mixed);
  if (packing.rows == 0)
    return windows;
  const double places = static_cast<double>(packing.rows) * static_cast<double>(plan.settings.sequence);
  return fmt::format("{}: {} samples in {} rows, of whose places they fill {:.1f} %{}", name, packing.samples,
                     packing.rows, 100 * static_cast<double>(packing.filled) / places,
                     windows.empty() ? "" : "\n" + windows);
}

SharedCorpus asOne(const std::vector<SharedCorpus> &parts) {
  return parts.size() == 1 ? parts.front() : concatenate(parts);
}

Result<TrainData> TrainData::open(const DataOptions &options, const std::vector<std::string> &evalPaths,
                                  const plan::Plan &plan) {
  std::vector<NamedPath> all;
  for (const std::string &path : options.paths)
    all.push_back({"--data", path});
  for (const std::string &path : evalPaths)
    all.push_back({"--eval-data", path});
  MT_TRY(lookForText(all, options.tokenizer));
  TrainData opened;
  MT_TRY(openInto(opened.data, all, "--data", options.tokenizer, plan));
  MT_TRY(openInto(opened.evalData, all, "--eval-data", options.tokenizer, plan));
  return opened;
}

/// Evaluation data may have full rows alone.
Status TrainData::shareRows(std::vector<SharedCorpus> &parts, std::vector<SharedCorpus> &evaluated,
                            const plan::Plan &plan) {
  MT_ASSIGN(note, packAll(parts, data.name, plan));
  if (std::ranges::none_of(evaluated, canShare))
    return Status();
  MT_ASSIGN(const std::string ofEvaluated, packAll(evaluated, evalData.name, plan));
  note += "\n" + ofEvaluated;
  return Status();
}

Status TrainData::arrange(const RecipeOptions &recipe, const plan::Plan &plan) {
  const std::vector<double> &weights = *recipe.dataWeights;
  if (!weights.empty() && weights.size() != data.parts.size())
    return fail("{}: of this run {} parts have weights, {}: give as many, or say each one's weight, as PATH:1",
                data.name, weights.size(), fmt::join(weights, ", "));
  std::vector<SharedCorpus> parts = data.parts, evaluated = evalData.parts;
  if (*recipe.pack)
    MT_TRY(shareRows(parts, evaluated, plan));
  if (weights.empty())
    parts = {asOne(parts)};
  else
    data.name = weighted(data.paths, weights);
  heldBack = *recipe.evalSplit > 0;
  if (heldBack) {
    MT_ASSIGN(std::vector<SharedCorpus> own,
              holdBack(parts, weights.empty() ? std::vector{data.name} : data.paths, recipe));
    evaluated = evaluated.empty() ? own : evaluated;
  }
  std::vector<int64_t> rows;
  for (const SharedCorpus &part : parts)
    rows.push_back(part->rows());
  corpus = asOne(parts);
  if (corpus->rows() < plan.settings.batch)
    return fail("{}: {} rows{}, and a step takes {}: give more data, or compile with a smaller --batch", data.name,
                corpus->rows(), heldBack ? " beside those that are held back" : "", plan.settings.batch);
  order.emplace(rows, weights, *recipe.shuffle, *recipe.seed);
  if (evaluated.empty())
    return Status();
  evalName = evalData.empty() ? "--eval-split" : evalData.name;
  evalCorpus = asOne(evaluated);
  return checkEvaluable(*evalCorpus, evalName, plan);
}

Status checkEvaluable(const Corpus &corpus, const std::string &name, const plan::Plan &plan) {
  if (!canPad(plan) && corpus.rows() < plan.settings.batch)
    return fail("{}: {} rows, and a batch takes {}; labels of this kind cannot be padded: give more data", name,
                corpus.rows(), plan.settings.batch);
  return Status();
}

} // namespace mt::train
